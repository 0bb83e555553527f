"""When a publication reads the change data feed of its table, and what writers, memory and terminals get."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from common.declare import ConsoleSink, ForeachSink, MemorySink, Publish
from common.delta.micro_batch import MicroBatch
from common.delta.table import BEGINS_FEED, maintenance_metadata
from gold.publish.query import _to_console, _to_each, hand_over, is_feed_whole, number_of_rows


@pytest.mark.parametrize(
    ("version", "is_whole"), [(None, True), (0, False), (1, False), (2, False), (3, True), (4, True)]
)
def test_a_feed_that_was_turned_on_before_all_rows_were_sent_waits(
    tmp_path: Path, version: int | None, *, is_whole: bool
) -> None:
    """The feed begins with version 2; the publication has sent what is before a version."""
    begins = maintenance_metadata("shop", "gold.met", "evolution", **{BEGINS_FEED: True})
    for number in range(4):
        metadata = {"userMetadata": begins} if number == 2 else {}
        write_deltalake(
            str(tmp_path / "t"),
            pa.table({"n": [number]}),
            mode="append",
            commit_properties=CommitProperties(custom_metadata=metadata),
        )
    if version is not None:
        for folder in ("offsets", "commits"):
            (tmp_path / "c" / folder).mkdir(parents=True)
        position = json.dumps({"reservoirVersion": version, "index": -1, "reservoirId": "t"})
        (tmp_path / "c" / "offsets" / "0").write_text(f"v1\n{{}}\n{position}")
        (tmp_path / "c" / "commits" / "0").write_text("v1\n{}")
    assert is_feed_whole(str(tmp_path / "t"), str(tmp_path / "c")) == is_whole


class Writer:
    """A writer that tells what it was called with."""

    def __init__(self, *, opens: object) -> None:
        self.opens, self.calls = opens, list[tuple[Any, ...]]()

    def open(self, partition: int, number: int) -> object:
        self.calls.append(("open", partition, number))
        return self.opens

    def process(self, row: str) -> None:
        self.calls.append(("process", row))
        if row == "bad":
            raise ValueError(row)

    def close(self, error: BaseException | None) -> None:
        self.calls.append(("close", type(error)))


@pytest.mark.parametrize(
    ("opens", "rows", "processed", "error"),
    [
        (True, ["a", "b"], ["a", "b"], None),
        (None, ["a"], ["a"], None),
        (False, ["a"], [], None),
        (True, ["a", "bad", "b"], ["a", "bad"], ValueError),
    ],
)
def test_a_writer_is_opened_gets_the_rows_and_is_closed_with_the_error(
    opens: object, rows: list[str], processed: list[str], error: type[Exception] | None
) -> None:
    writer = Writer(opens=opens)
    if error is None:
        hand_over(writer, rows, 7)
    else:
        with pytest.raises(error):
            hand_over(writer, rows, 7)
    calls = [("open", 0, 7), *(("process", row) for row in processed), ("close", error or type(None))]
    assert writer.calls == calls


def test_other_rows_of_the_same_micro_batch_have_another_number(tmp_path: Path) -> None:
    """As after an older copy of a checkpoint or of the table: a writer that remembers numbers gets them."""
    first = MicroBatch("shop", "publish.x", "q", 7, (5,), before=(3,), source_commits=("a",))
    others = [
        replace(first, positions=(6,)),
        replace(first, before=(4,)),
        replace(first, source_commits=("b",)),
    ]
    numbers = {number_of_rows(one) for one in (first, *others)}
    assert len(numbers) == 4
    assert {number >> 32 for number in numbers} == {7}
    assert number_of_rows(replace(first, is_first=False)) == number_of_rows(first)  # of a replay
    assert number_of_rows(first, is_named=False) == 7  # as an earlier release has sent it
    assert max(numbers) < number_of_rows(replace(first, batch_id=8)) < 2**63
    writer = Writer(opens=True)
    rows: Any = SimpleNamespace(rdd=SimpleNamespace(foreachPartition=lambda part: part(["a"])))
    send = _to_each(ForeachSink(writer), str(tmp_path))
    for one in (first, first, others[0]):
        send(rows, one)
    written = [call[2] for call in writer.calls if call[0] == "open"]
    assert written == [number_of_rows(one) for one in (first, first, others[0])]


def test_a_function_of_a_row_is_a_writer_too() -> None:
    rows = list[str]()
    hand_over(rows.append, ["a", "b"], 7)
    assert rows == ["a", "b"]


def test_rows_in_memory_are_the_newest_micro_batches() -> None:
    """A micro-batch that is repeated is there once, and one that is too large by itself stays whole."""
    sink = MemorySink(most=3)
    for number, rows in ((0, "ab"), (1, "c"), (1, "c"), (2, "de"), (3, "fghi")):
        sink.keep("query", number, [{"at": letter} for letter in rows])
        kept = "".join(row["at"] for row in sink.rows)
        assert kept == {0: "ab", 1: "abc", 2: "cde", 3: "fghi"}[number]


def test_what_a_terminal_is_shown_of_rows_does_not_control_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown: Any = SimpleNamespace(_show_string=lambda rows, width: f"{rows} rows of \x1b[31mred\n")
    publish = Publish("shown", reads="gold.latest", to=ConsoleSink(rows=3))
    _to_console(publish, publish.to)(shown, SimpleNamespace(batch_id=7))  # type: ignore[arg-type]
    assert capsys.readouterr().out == "publish.shown, micro-batch 7\n3 rows of \\x1b[31mred\n\n"
