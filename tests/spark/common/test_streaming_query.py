"""A query ends where a micro-batch would begin, knows who it is, and says in one line what it died of."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.delta.micro_batch import MicroBatch
from common.errors import QueryFailedError, TableMissingError
from common.streaming.error_lines import one_line
from common.streaming.query import Gate, RunningQuery, Stream, start

LONG = "x" * 500

TRACES = {
    "plain": "plain",
    "": "no cause was given",
    "\n \n": "no cause was given",
    "org.apache.spark.SparkException: java.lang.IllegalStateException: told": "IllegalStateException: told",
    "java.lang.ArrayIndexOutOfBoundsException: 5": "ArrayIndexOutOfBoundsException: 5",
    "java.lang.StackOverflowError": "java.lang.StackOverflowError",
    (
        "An error occurred while calling o232.join.\n: org.apache.spark.sql.catalyst.analysis."
        "UnresolvedException: [INTERNAL_ERROR] Invalid call to dataType on unresolved object SQLSTATE: XX000"
        "\n\tat org.apache.spark.sql.catalyst.analysis.UnresolvedExtractValue.dataType(unresolved.scala:972)"
    ): "[INTERNAL_ERROR] Invalid call to dataType on unresolved object",
    (
        "py4j.protocol.Py4JJavaError: An error occurred while calling o9.count.\n"
        ": java.lang.NullPointerException\n\tat a.b(C.scala:1)"
    ): "java.lang.NullPointerException",
    (
        "An error occurred while calling o9.x. Trace:\n"
        "py4j.Py4JException: Method x([]) does not exist\n\tat p.q"
    ): "Method x([]) does not exist",
    "An error occurred while calling o128824.join": "An error occurred while calling o128824.join",
    (
        "An error occurred while calling o9.save.\n"
        ": org.apache.spark.SparkException: Job aborted.\n\tat a.b(C:1)\n"
        "Caused by: java.io.IOException: Mkdirs failed to create file:/a\n\t... 3 more"
    ): "Mkdirs failed to create file:/a",
    (
        "org.apache.spark.SparkException: Job aborted\n\tat a.b\nCaused by: org.apache.spark.api.python."
        'PythonException: Traceback (most recent call last):\n  File "w.py", line 1, in f\n    raise x\n'
        "    ^^^^^^^\nValueError: no such part\n\n\tat org.apache.spark.api.python.R.h(R.scala:1)"
    ): "ValueError: no such part",
    (
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
        'Traceback (most recent call last):\n  File "q.py", line 2, in g\n    frame.join()\n'
        "py4j.protocol.Py4JJavaError: An error "
        "occurred while calling o1.join.\n: a.b.UnresolvedException: [INTERNAL_ERROR] Invalid call\n\tat c.d"
    ): "[INTERNAL_ERROR] Invalid call",
    "Job aborted.\n\tat a.b(C.scala:1)\nCaused by: java.io.IOException: disk full\n\tat d.e": "disk full",
    "first\nCaused by: a.b: second\nCaused by: java.lang.Exception: the root\n\t... 3 more": "the root",
    'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: no': "ValueError: no",
    "[SOME_CLASS] Told at once. SQLSTATE: 1\n== SQL ==\nselect 1": "[SOME_CLASS] Told at once. SQLSTATE: 1",
    "=== Streaming Query ===\nIdentifier: x": "Identifier: x",
    'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise x("a")\nKeyError: 1': (
        "KeyError: 1"
    ),
    LONG: "x" * 399 + "…",
}


@pytest.mark.parametrize("text", TRACES)
def test_a_stack_trace_becomes_its_cause_in_one_line(text: str) -> None:
    assert one_line(text) == TRACES[text]


@pytest.fixture
def run(spark: Any, tmp_path: Path) -> Callable[..., RunningQuery]:
    """Runs a stream over two one-line files, one per micro-batch, to its end; every run is a restart."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_text(f"{name}\n", encoding="utf-8")

    def to_the_end(write: Callable[[Any, MicroBatch], None], gate: Gate | None = None) -> RunningQuery:
        frame = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
        stream = Stream("shop", "silver.orders", frame, write, str(tmp_path / "checkpoint"), "")
        query = start(spark, stream, gate or Gate(), available_now=True)
        with contextlib.suppress(Exception):  # what it died of is asked for by the test
            query.query.awaitTermination(60)
        assert not query.is_active
        return query

    return to_the_end


def test_each_micro_batch_knows_its_query_its_number_and_how_far_it_reads(
    run: Callable[..., RunningQuery], tmp_path: Path
) -> None:
    """And a closed gate ends the query before the first of them, with nothing done."""
    seen: list[tuple[list[str], MicroBatch]] = []

    def write(frame: Any, batch: MicroBatch) -> None:
        seen.append(([row[0] for row in frame.collect()], batch))

    gate = Gate()
    gate.close()
    closed = run(write, gate)
    assert closed.failure() is None
    assert seen == []

    query = run(write)
    assert query.failure() is None
    assert sorted(rows[0] for rows, _ in seen) == ["a", "b"]
    identity = json.loads((tmp_path / "checkpoint" / "metadata").read_bytes())["id"]
    assert [(b.pipeline, b.query, b.query_id, b.batch_id) for _, b in seen] == [
        ("shop", "silver.orders", identity, 0),
        ("shop", "silver.orders", identity, 1),
    ]
    assert [batch.positions for _, batch in seen] == [({"logOffset": 0},), ({"logOffset": 1},)]
    assert [batch.is_first for _, batch in seen] == [True, False]
    assert sum(report["numInputRows"] for report in query.progress()) == 2


def test_what_a_write_raised_is_what_the_query_died_of_and_its_batch_comes_again(
    run: Callable[..., RunningQuery],
) -> None:
    seen: list[int] = []

    def dying(frame: Any, batch: MicroBatch) -> None:
        seen.append(batch.batch_id)
        raise ValueError("no space left\non device")

    def refusing(frame: Any, batch: MicroBatch) -> None:
        seen.append(batch.batch_id)
        raise TableMissingError("silver.orders", "/nowhere", "Make it.")

    def fine(frame: Any, batch: MicroBatch) -> None:
        seen.append(batch.batch_id)
        frame.count()

    died = run(dying).failure()
    assert isinstance(died, QueryFailedError)
    assert str(died) == "silver.orders failed: no space left"
    assert isinstance(run(refusing).failure(), TableMissingError)
    assert run(fine).failure() is None
    assert seen == [0, 0, 0, 1]
