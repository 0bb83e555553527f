"""Tables that fail by a statement, a row or a rule beside others that go on, by an operator's commands."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.config.paths import Layout
from common.config.settings import load_settings
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.run import job
from tests.support import in_process
from tests.support.in_process import Ended
from tests.support.processes import DEADLINE_SECONDS, PAUSING

FILE = '''from medallion import Aggregate, Files, History, Json, Pipeline, Rule, Silver, Upsert, View


def shaped(rows):
    return rows.withColumn("flag", rows.z > 0)


def silver(name, columns=shaped, **more):
    return Silver(
        name, reads="bronze.lines", columns=columns, key=["id"], event_time="at", watermark="1 day", **more,
        value=Json("id string, kind string, t string, a bigint, z bigint, at timestamp"),
    )


KEPT = {"reads": "silver.newest", "key": ["id"], "columns": {"id": "id", "at": "at", "q": "a + z"}}
pipeline = Pipeline(
    name="shop",
    bronze=[Files("lines", "in", "jsonl")],
    silver=[
        silver("orders"),
        silver("newest", keep="newest", dedupe="exact"),
        silver("strict", rules=[Rule("not_b", "id <> 'b'", on_fail="fail")]),
        silver("broken", {"id": "id", "at": "at", "x": "sort_array(from_csv(kind, 'x int'))"}),
    ],
    gold=[
        View("counts", sql="select kind, count(*) as n from silver.orders group by kind"),
        View("sums", sql="select kind, n from gold.counts"),
        Aggregate("fine", reads="silver.newest", by=["kind"], measures={"n": "count(*)"}, mode="recompute"),
        View("of_flag", sql="select kind, sum(flag) as s from silver.orders group by kind"),
        View("no_column", sql="""
            select id,
                   nosuch as x
            from silver.orders"""),
        Aggregate("misfit", reads="silver.orders", by=["kind"], measures={"s": "sum(nosuch)"}),
        View("of_text", sql="select kind, sum(t) as s from silver.orders group by kind"),
        View("divided", sql="select id, 100 div z as q from silver.newest"),
        View("of_divided", sql="select count(*) as n from gold.divided"),
        View("chosen", sql="select id from silver.newest where 100 div z > 30"),
        View("too_large", sql="select kind, sum(a) as s from silver.newest group by kind"),
        Aggregate("again", reads="silver.newest", by=["kind"], measures={"s": "sum(a)"}, mode="recompute"),
        Upsert("latest", newest_by=["at"], **KEPT),
        History("versions", valid_by="at", **{**KEPT, "columns": {"q": "a + z"}}),
        View("of_strict", sql="select id from silver.strict"),
        View("of_that", sql="select count(*) as n from gold.of_strict"),
        View("of_broken", sql="select x from silver.broken"),
    ],
)
'''
LINES = (
    '{"id": "a", "kind": "k", "t": "1", "a": 9223372036854775807, "z": 1, "at": "2026-01-05T10:00:00Z"}',
    '{"id": "b", "kind": "k", "t": "GOLDBOMB", "a": 1, "z": 0, "at": "2026-01-05T10:01:00Z"}',
    '{"id": "c", "kind": "m", "t": "2", "a": 3, "z": 2, "at": "2026-01-05T10:02:00Z"}',
)
CORRECTED = (
    '{"id": "a", "kind": "k", "t": "1", "a": 10, "z": 1, "at": "2026-01-05T11:00:00Z"}',
    '{"id": "b", "kind": "k", "t": "5", "a": 1, "z": 5, "at": "2026-01-05T11:01:00Z"}',
    '{"id": "d", "kind": "m", "t": "6", "a": 2, "z": 4, "at": "2026-01-05T11:02:00Z"}',
)
LATER = '{"id": "c", "kind": "m", "t": "2", "a": 3, "z": 10, "at": "2026-01-05T12:00:00Z"}'
HEALED = {"gold.divided", "gold.chosen", "gold.too_large", "gold.again"}
AT_ROWS = {*HEALED, "gold.latest", "gold.versions", "gold.of_text"}
REFUSED = {"silver.broken", "gold.of_flag", "gold.misfit"}
WAITING = {
    "gold.of_divided": "gold.divided",
    "gold.of_strict": "silver.strict",
    "gold.of_that": "silver.strict",
    "gold.of_broken": "silver.broken",
}


class Shop:
    """The folder of an operator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "shop.py"
        self.file.write_text(FILE)
        (folder / "in").mkdir()
        self.settings = (
            f"data_dir={folder / 'data'}",
            "spark.shuffle_partitions=1",
            *PAUSING,
        )
        self.layout = Layout.of(load_pipeline(self.file), load_settings(overrides=list(self.settings)))

    def send(self, name: str, *lines: str) -> bool:
        """One more file of records; true."""
        (self.folder / f"{name}.new").write_text("".join(f"{line}\n" for line in lines))
        (self.folder / f"{name}.new").rename(self.folder / "in" / f"{name}.jsonl")
        return True

    def run(self, *words: str) -> Ended:
        """A command, to its end."""
        return in_process.run(*words, "-p", str(self.file), settings=self.settings)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, in order; none where it does not exist."""
        path = self.layout.table_path(table)
        if not DeltaTable.is_deltatable(path):
            return []
        found = DeltaTable(path).to_pyarrow_table().to_pylist()
        return sorted(tuple(v for name, v in one.items() if name[0] != "_") for one in found)

    def states(self) -> dict[str, tuple[str, str]]:
        """What ``status`` says of each query."""
        tables = json.loads(self.run("status", "--json").stdout)["tables"]
        return {one["table"]: (one["query"]["state"], one["query"]["phase"]) for one in tables}


@pytest.fixture(scope="module", name="shop")
def _shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    @contextmanager
    def session(*_: object) -> Iterator[Any]:
        yield spark

    found = Shop(tmp_path_factory.mktemp("shop"))
    found.send("first", *LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "announced_session", session)
        yield found


@pytest.fixture(scope="module", name="filled")
def _filled(shop: Shop) -> Ended:
    """The first backfill, which has ended."""
    return shop.run("backfill", "--json")


def test_a_backfill_fills_the_others_and_ends_with_the_list_of_what_failed_and_what_waits(
    shop: Shop, filled: Ended
) -> None:
    assert filled.code == 1, filled.stderr
    assert "Traceback" not in filled.stderr
    assert "GOLDBOMB" not in filled.stderr + filled.stdout
    found = json.loads(filled.stdout)["error"]
    problems = {one["place"]: one for one in found["problems"]}
    by_code: dict[str, set[str]] = {}
    for one in found["problems"]:
        by_code.setdefault(one["code"], set()).add(one["place"].partition(",")[0])
    assert by_code == {
        "MED-1202": {"gold.no_column"},
        "MED-4005": {"silver.strict"},
        "MED-4014": REFUSED,
        "MED-4015": AT_ROWS,
        "MED-4017": {*WAITING},
    }
    for table, failed in WAITING.items():
        assert problems[table]["message"] == f"{table} waits for {failed}, which has failed"
    lines = FILE.splitlines()
    for table, word in {
        "gold.of_flag": "sum(flag)",
        "gold.no_column": "nosuch as x",
        "gold.of_text": "sum(t)",
        "gold.divided": "100 div z",
        "gold.too_large": "sum(a)",
        "gold.again": "sum(a)",
    }.items():
        one = problems[table]
        assert one["source"].endswith(f"shop.py:{one['line']}"), one
        assert lines[one["line"] - 1][one["column"] - 1 :].startswith(word), one
    assert [shop.rows(table) for table in ("gold.counts", "gold.sums", "gold.fine")] == [
        [("k", 2), ("m", 1)]
    ] * 3
    assert len(shop.rows("silver.orders")) == 3
    assert [shop.rows(table) for table in ("gold.divided", "gold.of_that", "silver.broken")] == [[], [], []]


def test_each_message_says_what_where_which_record_and_what_to_type(shop: Shop, filled: Ended) -> None:
    told = dict(line.split(" failed: ", 1) for line in filled.stderr.splitlines() if " failed: " in line)
    divided, too_large, again = (told[f"gold.{name}"] for name in ("divided", "too_large", "again"))
    assert "[DIVIDE_BY_ZERO] Division by zero: 100 div z, in sql (" in divided
    assert (
        "It fails for the record files:lines/0/1 of silver.newest. Nothing of the micro-batch was written."
        in divided
    )
    assert (
        "Once silver.newest has the row corrected, gold.divided goes on by itself. Or write try_divide"
        in divided
    )
    assert "medallion rebuild gold.divided" in divided
    for one in (too_large, again):
        assert "[ARITHMETIC_OVERFLOW] A number is too large for its type: sum(a), in " in one
        assert ", in a group of kind. It fails for the record files:lines/0/1 of silver.newest." in one
        assert "write try_sum there" in one
    assert "then fill the table again: medallion rebuild gold.latest" in told["gold.latest"]
    assert "gold.no_column: sql names 'nosuch', which is no column" in filled.stderr
    assert "gold.misfit, measure 's': there is no column `nosuch`" in filled.stderr


def test_status_names_the_tables_that_have_failed_and_no_others(shop: Shop, filled: Ended) -> None:
    states = shop.states()
    assert {table for table, (state, _) in states.items() if state == "failed"} == {
        *REFUSED,
        *AT_ROWS,
        "gold.no_column",
        "silver.strict",
    }
    for table, failed in WAITING.items():
        assert states[table] == ("stopped", f"waits for {failed}, which has failed")


@pytest.mark.long
def test_a_job_of_one_layer_goes_on_too(shop: Shop, filled: Ended) -> None:
    ended = shop.run("run", "gold", "--available-now")
    assert ended.code == 1
    assert "silver.broken does not exist yet" in ended.error + ended.stderr
    assert "gold.of_divided waits for gold.divided, which has failed" in ended.stderr
    assert shop.rows("gold.counts") == [("k", 2), ("m", 1)]


@pytest.mark.long
def test_a_corrected_row_heals_its_tables_by_itself_in_a_running_job(shop: Shop, filled: Ended) -> None:
    found = up_until(
        shop,
        lambda: "gold.divided" in failed(shop) and shop.rows("gold.fine") == [("k", 2), ("m", 1)],
        lambda: shop.send("second", *CORRECTED),
        lambda: shop.rows("gold.divided") == [("a", 100), ("b", 20), ("c", 50), ("d", 25)],
        lambda: shop.rows("gold.chosen") == [("a",), ("c",)],
        lambda: shop.rows("gold.of_divided") == [(4,)],
        lambda: shop.rows("gold.too_large") == shop.rows("gold.again") == [("k", 11), ("m", 5)],
        lambda: shop.rows("gold.counts") == [("k", 2), ("m", 2)],
        lambda: not HEALED & failed(shop),
    )
    assert found.code == 1, found.stderr
    assert "gold.divided: works again" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.long
def test_the_command_of_the_message_fills_the_others_again_and_healed_tables_go_on(
    shop: Shop, filled: Ended
) -> None:
    for table in ("gold.latest", "gold.versions"):
        assert shop.run("rebuild", table).code == 0
    shop.send("third", LATER)
    assert shop.run("backfill").code == 1  # the others
    sums = [("a", 11), ("b", 6), ("c", 13), ("d", 6)]
    assert [(one[0], one[2]) for one in shop.rows("gold.latest")] == sums
    assert {(one[0], one[1]) for one in shop.rows("gold.versions")} >= {*sums}
    assert shop.rows("gold.divided") == [("a", 100), ("b", 20), ("c", 10), ("d", 25)]
    assert shop.rows("gold.chosen") == [("a",)]
    assert shop.rows("gold.too_large") == shop.rows("gold.again") == [("k", 11), ("m", 5)]


def failed(shop: Shop) -> set[str]:
    """The queries that have failed, by what the job has written of them."""
    states = (json.loads(file.read_text()) for file in shop.layout.query_states.glob("*.json"))
    return {one["query"] for one in states if one["state"] == "failed"}


def up_until(shop: Shop, *steps: Callable[[], bool]) -> Ended:
    """Run ``up`` until all steps were true, one after the other, and stop it by a signal."""
    left = list(steps)

    def scenario() -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while left and time.monotonic() < deadline:
            if left[0]():
                del left[0]
            else:
                time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=scenario, daemon=True)
    thread.start()
    ended = shop.run("up")
    thread.join(10)
    assert not left, (len(steps) - len(left), ended.stderr)
    return ended
