"""What a backfill shows: plain lines where there is no terminal, with a total only where one is known."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from rich.console import Console

from orchestration.change.backfill import catch_up as backfill
from orchestration.change.backfill.catch_up import _Bars


class Query:
    """A query that reports micro-batches, as Spark does."""

    def __init__(self, name: str, *batches: tuple[int, int], is_active: bool = True) -> None:
        self.name, self.batches, self.is_active = name, batches, is_active
        self.failed = False

    def failure(self) -> Exception | None:
        """What ended the query, if it was an error."""
        return ValueError("no") if self.failed else None

    def progress(self) -> Iterator[dict[str, Any]]:
        """Id and rows of each."""
        yield from ({"batchId": batch, "numInputRows": rows} for batch, rows in self.batches)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plain lines, as they are said."""
    said: list[str] = []
    monkeypatch.setattr(backfill, "say", said.append)
    monkeypatch.setattr(backfill.sys.stderr, "isatty", lambda: False)
    return said


def shown(bars: _Bars, *queries: Query) -> None:
    """Let the queries report."""
    bars.update(list(queries))  # type: ignore[arg-type]


def test_rows_are_counted_once_however_often_a_micro_batch_is_reported(lines: list[str]) -> None:
    with _Bars("bronze", {"bronze.a": 30, "bronze.b": 5}) as bars:
        shown(bars, Query("bronze.a", (0, 10)), Query("bronze.b"))
        shown(bars, Query("bronze.a", (0, 10), (1, 20)), Query("bronze.b", (0, 5)))
        assert bars.rows() == 35


def test_a_table_that_is_whole_is_shown_without_a_total(lines: list[str]) -> None:
    """The total was an estimate before the start: 1,500 of 2,000 would mean that rows are missing."""
    with _Bars("silver", {"silver.a": 2_000}) as bars:
        shown(bars, Query("silver.a", (0, 1_500)))
        bars.finish()
    (line,) = lines
    assert line.startswith("silver.a: up to date, 1,500 rows read, ")


def test_nothing_to_do_is_not_0_of_n(lines: list[str]) -> None:
    """As after a first load, which is done before the query starts."""
    with _Bars("silver", {"silver.a": 110_553}) as bars:
        shown(bars, Query("silver.a"))
        bars.finish()
    assert lines == ["silver.a: up to date, nothing to read"]


def test_rows_that_spark_read_three_times_are_counted_once(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "_PLAIN_SECONDS", -1.0)
    counts = iter([60_000, 50_553, 0, 0])
    with _Bars("gold", {"gold.a": 110_553}, {"gold.a": lambda: next(counts)}) as bars:
        shown(bars, Query("gold.a", (0, 180_000)))
        shown(bars, Query("gold.a", (0, 180_000), (1, 143_506)))
        bars.finish()
        assert bars.rows() == 110_553
    told = [line.partition(", ")[0] for line in lines]
    assert told == ["gold.a: 60,000 of 110,553 rows", "gold.a: 110,553 of 110,553 rows", "gold.a: up to date"]


@pytest.mark.parametrize("total", [110_553, None])
def test_more_rows_than_the_total_are_shown_without_it(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, total: int | None
) -> None:
    """Where the checkpoint does not say what was read, Spark's number is all that is known."""
    monkeypatch.setattr(backfill, "_PLAIN_SECONDS", -1.0)
    with _Bars("bronze", {"bronze.a": total}, {"bronze.a": lambda: None}) as bars:
        shown(bars, Query("bronze.a", (0, 323_506)))
    (line,) = lines
    assert line.startswith("bronze.a: 323,506 offsets, ")
    assert "left" not in line


def test_a_log_of_an_hour_and_thirty_tables_is_short(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line per half a minute for all of them together, and one for each that is up to date."""
    now, names = [0.0], [f"gold.t{place}" for place in range(30)]
    monkeypatch.setattr(backfill.time, "monotonic", lambda: now[0])
    with _Bars("gold", dict.fromkeys(names, 3_600)) as bars:
        for second in range(3_600):
            now[0] = float(second)
            ended = second // 120
            shown(
                bars,
                *(Query(name, (0, second), is_active=place >= ended) for place, name in enumerate(names)),
            )
        bars.finish()
    whole = [line for line in lines if ": up to date, " in line]
    assert [line.partition(":")[0] for line in whole] == names
    progress = [line for line in lines if line not in whole]
    assert len(progress) <= 120
    assert progress[0] == "30 tables of gold: 930 of 108,000 rows, 30 rows/s, 3569 s left"
    assert progress[-1].startswith("gold.t29: ")


def test_a_query_that_stops_or_fails_is_not_up_to_date(lines: list[str]) -> None:
    stopped, failed = Query("gold.a", (0, 5), is_active=False), Query("gold.b", is_active=False)
    failed.failed = True
    with _Bars("gold", {"gold.b": 7}) as bars:
        shown(bars, failed)
    with _Bars("gold", {"gold.a": 7}, None, lambda: True) as bars:
        shown(bars, stopped)
    assert lines == []


def test_a_terminal_gets_a_bar_per_table_and_no_lines(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(backfill, "err", screen)
    monkeypatch.setattr(backfill.sys.stderr, "isatty", lambda: True)
    with _Bars("gold", {"gold.a": 2_000, "gold.b": None}) as bars:
        shown(bars, Query("gold.a", (0, 2_000)), Query("gold.b", (0, 7)))
        bars.finish()
    assert isinstance(screen.file, io.StringIO)
    text = screen.file.getvalue()
    assert "gold.a" in text
    assert "2,000/2,000" in text
    assert "7/7" in text
    assert lines == []


def test_a_table_that_followed_changes_of_its_source_has_not_read_nothing(
    lines: list[str], tmp_path: Path
) -> None:
    """Its rows are not counted by positions, and Spark's number is 0: what it has committed is counted."""

    def commit(rows: int, query: str) -> None:
        metadata = {"userMetadata": json.dumps({"query": query})}
        write_deltalake(
            tmp_path / "v",
            pa.table({"n": list(range(rows))}),
            mode="append",
            commit_properties=CommitProperties(custom_metadata=metadata),
        )

    new = backfill._Commits(str(tmp_path / "new"), "gold.new")
    commit(50, "gold.v")
    commits = backfill._Commits(str(tmp_path / "v"), "gold.v")
    commit(7, "maintenance")
    assert (new.added(), commits.added()) == (None, None)
    commit(100, "gold.v")
    commit(68, "gold.v")
    assert commits.added() == 168
    with _Bars("gold", {"gold.v": None}, None, lambda: False, {"gold.v": commits}) as bars:
        shown(bars, Query("gold.v", (0, 0), (1, 0)))
        bars.finish()
    assert lines == ["gold.v: up to date, 168 rows written"]
    told = backfill.LayerResult("gold", 0, 4.0, is_whole=True, changed=1, written=168).text
    assert told == "gold: 1 table changed, 168 rows written in 4.0 s"
