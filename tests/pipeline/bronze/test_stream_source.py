"""Any streaming source of Spark as a source: each row once and typed, through kills and restarts."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from common.declare import Aggregate, Columns, Pipeline, Silver, Stream
from common.errors import CheckpointMismatchError, MedallionError, PipelineError, UsageError
from orchestration.change.recover.carry_out import recover_all
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.records.audit.audit import audit
from tests.conftest import make_settings
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine

NAME = "bronze.sensor"
BEGIN_MS, STEP_MS, ROWS = 1_767_225_600_000, 60_000, 4
OPTIONS = {
    "rowsPerBatch": str(ROWS),
    "numPartitions": "2",
    "startTimestamp": str(BEGIN_MS),
    "advanceMillisPerBatch": str(STEP_MS),
}
SILVER = Silver(
    "sensor",
    reads=NAME,
    value=Columns("value bigint, timestamp timestamp"),
    columns={"id": "value", "at": "timestamp", "half": "value % 2"},
    key=["id"],
    event_time="at",
    watermark="1 day",
)
GOLD = Aggregate("halves", "silver.sensor", by=["half"], measures={"n": "count(*)", "sum": "sum(id)"})


def engine_of(spark: Any, folder: Path, **given: Any) -> Engine:
    """A pipeline of the source, without a broker: a run reads one micro-batch."""
    stream = Stream(**{"name": "sensor", "format": "rate-micro-batch", "options": OPTIONS} | given)
    pipeline = Pipeline(name="sensors", bronze=[stream], silver=[SILVER], gold=[GOLD])
    return Engine(spark, pipeline, make_settings(folder, "none:1", "spark.shuffle_partitions=1"))


def check(engine: Engine, batches: int) -> None:
    """Bronze, silver and gold have the rows of these micro-batches of the source, by an account made here."""
    rows = sorted(engine.rows(NAME), key=lambda row: int(row["offset"]))
    count = batches * ROWS
    assert [row["offset"] for row in rows] == list(range(count))
    assert {(row["topic"], row["partition"], row["key"]) for row in rows} == {("stream:sensor", 0, None)}
    values = {row["value"]["value"]: row["value"]["timestamp"] for row in rows}
    assert sorted(values) == list(range(count))
    for number, at in values.items():
        assert at.timestamp() * 1000 == BEGIN_MS + number // ROWS * STEP_MS
    headers = [{one["key"]: int(one["value"]) for one in row["headers"]} for row in rows]
    assert [one["row"] for one in headers] == [number % ROWS for number in range(count)]
    assert sorted(row["id"] for row in engine.rows("silver.sensor")) == list(range(count))
    sums = {half: sum(range(half, count, 2)) for half in (0, 1)}
    assert {row["half"]: row["sum"] for row in engine.rows("gold.halves")} == sums
    assert engine.faults() == ()


@pytest.mark.long
@pytest.mark.parametrize("done_first", [0, 1])
def test_kills_at_every_write_lose_and_double_nothing(spark: Any, tmp_path: Path, done_first: int) -> None:
    """Each write of two runs in turn is not done before its process ends, or is the last that it does."""
    engine = engine_of(spark, tmp_path)
    kills = {number: number % 2 == done_first for number in range(8)}
    assert run_through_crashes(engine.run, kills) > 4
    engine.run("silver", "gold")
    check(engine, len(engine.rows(NAME)) // ROWS)


class Server:
    """Sends lines to whoever connects, and begins anew for each connection."""

    def __init__(self) -> None:
        self.to_send: list[str] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                connection.sendall("".join(f"{line}\n" for line in self.to_send).encode())
                self.to_send = []


def test_lines_of_a_server_and_what_a_kill_has_lost_of_them(spark: Any, tmp_path: Path) -> None:
    """Positions go on over connections; of a micro-batch that was planned and not written the audit tells."""
    server = Server()
    stream = Stream(
        "lines",
        format="socket",
        options={"host": "127.0.0.1", "port": str(server.port), "includeTimestamp": "true"},
        replayable=False,
    )
    of = Silver(
        "lines",
        reads="bronze.lines",
        value=Columns("value string, timestamp timestamp"),
        columns={"line": "value", "at": "timestamp", "n": "_kafka.offset"},
        key=["n"],
        event_time="at",
        watermark="1 day",
    )
    pipeline = Pipeline("gate", bronze=[stream], silver=[of])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))
    server.to_send = ["a", "b \u00e9", ""]
    engine.run()
    server.to_send = ["lost", "lost too"]
    with (
        mock.patch("bronze.numbered_rows.Numbering.numbered", side_effect=ValueError("killed")),
        pytest.raises(MedallionError),
    ):
        engine.run("bronze")
    server.to_send = ["c"]
    engine.run()
    engine.run()
    rows = sorted(engine.rows("bronze.lines"), key=lambda row: int(row["offset"]))
    assert [row["value"]["value"] for row in rows] == ["a", "b \u00e9", "", "c"]
    assert sorted(row["line"] for row in engine.rows("silver.lines")) == ["", "a", "b \u00e9", "c"]
    account = audit(spark, pipeline, of, engine.layout, again_seconds=0)
    assert account.faults == ()
    (told,) = (note for note in account.notes if "open point" in note)
    assert told.startswith(
        "stream:lines: open point: 2 lines were received and lost with jobs that were killed"
    )
    server.socket.close()


@pytest.mark.long
def test_positions_that_are_numbers_and_a_lost_checkpoint(spark: Any, tmp_path: Path) -> None:
    """``rate`` names its positions by a number; what it keeps in its checkpoint is in no commit."""
    engine = engine_of(spark, tmp_path, format="rate", options={"rowsPerSecond": "50"})
    engine.run("bronze")
    while len(engine.rows(NAME)) < 60:
        engine.run("bronze")
    engine.run("silver", "gold")
    rows = engine.rows(NAME)
    assert sorted(row["value"]["value"] for row in rows) == list(range(len(rows)))
    assert isinstance(engine.commits(NAME)[-1]["positions"][0], int)
    assert engine.faults() == ()
    engine.undo_last_commit(NAME)
    engine.run("bronze")
    rows = engine.rows(NAME)
    assert sorted(row["value"]["value"] for row in rows) == list(range(len(rows)))
    engine.remove(engine.checkpoint(NAME))
    with pytest.raises(CheckpointMismatchError, match="is gone"):
        engine.run("bronze")
    with pytest.raises(CheckpointMismatchError, match="what the source rate kept there"):
        recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)


@pytest.mark.long
def test_a_damaged_position_is_repaired(spark: Any, tmp_path: Path) -> None:
    """An entry of the checkpoint that was edited is written again by the commits."""
    engine = engine_of(spark, tmp_path)
    engine.run()
    engine.run("bronze")
    (entry,) = (engine.checkpoint(NAME) / "offsets").glob("1")
    entry.write_text("")
    (entry.parent / ".1.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointMismatchError, match=r"medallion recover bronze\.sensor"):
        engine.run("bronze")
    recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)
    engine.run()
    check(engine, 3)


def test_a_source_without_its_jar_is_one_line(spark: Any, tmp_path: Path) -> None:
    """The nearest name, and the setting that loads a jar; nothing is written."""
    with pytest.raises(PipelineError, match="did you mean 'rate-micro-batch'"):
        engine_of(spark, tmp_path, format="rate-microbatch", options={})
    for name, text in (
        ("mongodb", r"its jar org\.mongodb\.spark:mongo-spark-connector_2\.13 is not loaded: name it in"),
        ("aws-kinesis", "its jar is not loaded: name it in spark.packages, by its version and sha256"),
    ):
        engine = engine_of(spark, tmp_path, format=name, options={})
        with pytest.raises(UsageError, match=text) as raised:
            engine.run("bronze")
        assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="the source rate-micro-batch refuses its options"):
        engine_of(spark, tmp_path, options={"rowsPerBatch": "9" * 30}).run("bronze")
    assert not Path(engine.path(NAME)).exists()


@pytest.mark.long
def test_status_says_what_is_not_known(spark: Any, tmp_path: Path) -> None:
    """How much of the source is unread; silver's lag and freshness are counted from bronze on."""
    engine = engine_of(spark, tmp_path)
    engine.run()
    engine.run("bronze")
    offsets = BrokerOffsets(engine.pipeline, engine.settings)
    tables = {one.table: one for one in Collector(engine.pipeline, engine.layout, offsets).collect().tables}
    assert tables[NAME].lag.count is None
    assert tables[NAME].lag.note == "the source rate-micro-batch does not say what is unread"
    assert tables["silver.sensor"].lag.count == ROWS
    freshness = tables["silver.sensor"].freshness
    assert freshness is not None
    assert freshness.is_known
    assert freshness.waiting_since is not None
