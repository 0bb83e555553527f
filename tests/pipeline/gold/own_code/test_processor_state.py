"""The state of a processor: it begins with a table, another schema reads it or is refused, it gets lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from common.declare import Pipeline, Stateful, Topic
from common.delta import table as delta_table
from common.errors import PipelineError, StateChangedError, StateDamagedError, TableMissingError
from orchestration.change.recover.carry_out import recover_all
from orchestration.records.rejudge.refill_gold import refill
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

AT = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = (
    "device string, _kafka_topic string, _kafka_partition int, _kafka_offset bigint, "
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)


class Counts(StatefulProcessor):
    """The number of each row of a device, from that of its initial state."""

    STATE: ClassVar[str] = "n int"

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", self.STATE)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.count.update((initialState.seen,))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        given = self.count.get()
        n = 0 if given is None else int(given[0])
        for _ in rows:
            n += 1
            yield Row(device=key[0], n=n)
        self.count.update(self.kept(n))

    def kept(self, n: int) -> tuple[Any, ...]:
        return (n,)

    def close(self) -> None:
        pass


class WithWord(Counts):
    """Its state has a column more."""

    STATE = "n int, word string"

    def kept(self, n: int) -> tuple[Any, ...]:
        return (n, "new")


class Wide(Counts):
    """Its state has a wider type."""

    STATE = "n bigint"


class Text(Counts):
    """Its state has another type, which no stored value has."""

    STATE = "n string"

    def kept(self, n: int) -> tuple[Any, ...]:
        return (str(n),)


class Listed(Wide):
    """Its state is of another kind."""

    def init(self, handle: Any) -> None:
        self.count = handle.getListState("count", self.STATE)


class Stateless(Counts):
    """It keeps nothing."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for _ in rows:
            yield Row(device=key[0], n=0)


class Alarms(Stateless):
    """It keeps timers alone."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        self.handle.registerTimer(4_102_444_800_000)
        yield from super().handleInputRows(key, rows, timerValues)


class More(Counts):
    """It has a state more."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.words = handle.getMapState("words", "word string", "n int")


def pipeline(processor: type, **more: Any) -> Pipeline:
    declared = Stateful(
        "counts", "silver.clicks", key=["device"], processor=processor, output="device string, n int", **more
    )
    return Pipeline(name="shop", bronze=[Topic("clicks")], gold=[declared])


class Shop:
    """The pipeline over a silver table that gets a row of a device at a time."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.settings, self.offset = spark, make_settings(folder, "none:1"), 0
        empty = spark.createDataFrame([], SCHEMA).schema
        delta_table.ensure(spark, "silver.clicks", self.engine(Counts).path("silver.clicks"), empty, {})

    def engine(self, processor: type, **more: Any) -> Engine:
        return Engine(self.spark, pipeline(processor, **more), self.settings)

    def click(self, device: str) -> None:
        self.offset += 1
        self.engine(Counts).append("silver.clicks", [(device, "t", 0, self.offset, AT, AT)], SCHEMA)

    def run(self, processor: type, device: str | None = None, **more: Any) -> list[tuple[str, int]]:
        """A run over a further row; the rows of the table."""
        if device is not None:
            self.click(device)
        engine = self.engine(processor, **more)
        engine.run("gold")
        return sorted((row["device"], row["n"]) for row in engine.rows("gold.counts"))


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def test_state_of_another_schema(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """More columns, wider types and more states are read; what does not fit is refused until a rebuild.

    A start says once that the class has changed.
    """
    counts = [("a", n) for n in range(1, 10)]
    assert shop.run(Counts, "a") == counts[:1]
    assert "has changed" not in capsys.readouterr().err
    assert shop.run(WithWord, "a") == counts[:2]
    assert "gold.counts: processor has changed since the last start" in capsys.readouterr().err
    assert shop.run(WithWord) == counts[:2]
    assert "has changed" not in capsys.readouterr().err
    assert shop.run(More, "a") == counts[:3]
    assert shop.run(Wide, "a") == counts[:4]
    shop.click("a")
    for refused, how in ((Text, "columns or types differ"), (Listed, "count was a ValueState and is a List")):
        with pytest.raises(StateChangedError, match=f"{how}.*Nothing was written.*rebuild gold\\.counts"):
            shop.run(refused)
        assert len(shop.engine(refused).rows("gold.counts")) == 4
    assert shop.run(Wide) == counts[:5]
    engine = shop.engine(Text)
    assert refill(engine.pipeline, engine.layout, "gold.counts") is not None
    assert shop.run(Text, "a") == counts[:6]


@pytest.mark.parametrize("lost", ["files", "state", "checkpoint"])
def test_a_lost_state_is_refused_and_filled_again(shop: Shop, lost: str) -> None:
    """Also where the whole checkpoint is lost: a start then fills the table again."""
    for _ in range(2):
        shop.run(Counts, "a")
    engine = shop.engine(Counts)
    assert recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: shop.spark).steps == ()
    state = engine.checkpoint("gold.counts") / "state"
    if lost == "files":
        for file in [*state.rglob("*.changelog"), *state.rglob("*.zip")]:
            file.unlink()
    else:
        shutil.rmtree(state if lost == "state" else engine.checkpoint("gold.counts"))
    shop.click("a")
    if lost != "checkpoint":
        with pytest.raises(StateDamagedError, match=r"gold\.counts.*medallion rebuild gold\.counts"):
            shop.run(Counts)
        done = recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: shop.spark)
        assert [(step.query, step.kind) for step in done.steps] == [("gold.counts", "rebuild")]
    assert shop.run(Counts, "b") == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]


@pytest.mark.parametrize(("processor", "more"), [(Stateless, {}), (Alarms, {"timers": "processing_time"})])
def test_a_recovery_reads_a_state_without_variables(
    shop: Shop, processor: type, more: dict[str, Any]
) -> None:
    """None at all, or timers, whose loss is found. The run ends while timers are open."""
    assert shop.run(processor, "a", **more) == [("a", 0)]
    engine = shop.engine(processor, **more)

    def steps() -> list[str]:
        done = recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: shop.spark)
        return [step.kind for step in done.steps]

    assert steps() == []
    state = engine.checkpoint("gold.counts") / "state"
    for file in [*state.rglob("*.changelog"), *state.rglob("*.zip")]:
        file.unlink()
    assert steps() == (["rebuild"] if more else [])


def test_state_begins_with_a_table(shop: Shop, tmp_path: Path) -> None:
    """Once: not at later micro-batches, in a replay by the version it was, in a rebuild by the newest."""
    path = str(tmp_path / "former")

    def write(*rows: tuple[str, int]) -> None:
        frame = shop.spark.createDataFrame(rows, "device string, seen int")
        frame.coalesce(1).write.format("delta").mode("overwrite").save(path)

    with pytest.raises(TableMissingError, match=r"gold\.counts begins with it"):
        shop.run(Counts, "a", initial=path)
    shop.spark.createDataFrame([(1, 10)], "device int, seen int").write.format("delta").save(path + "_ints")
    with pytest.raises(
        PipelineError, match=r"initial, .*, has the key device as int, and silver\.clicks as string"
    ):
        shop.run(Counts, initial=path + "_ints")
    write(("a", 10), ("b", 20))
    assert shop.run(Counts, initial=path) == [("a", 11)]
    write(("a", 100), ("b", 200), ("c", 300))
    engine = shop.engine(Counts, initial=path)
    assert engine.undo_last_commit("gold.counts") == 0
    assert shop.run(Counts, initial=path) == [("a", 11)]
    shutil.move(path, path + "_away")
    assert shop.run(Counts, "a", initial=path) == [("a", 11), ("a", 12)]
    assert shop.run(Counts, "b", initial=path) == [("a", 11), ("a", 12), ("b", 21)]
    other = tmp_path / "other"
    shutil.copytree(path + "_away", other)
    with pytest.raises(PipelineError, match=r"gold\.counts, initial: .*medallion rebuild gold\.counts"):
        shop.run(Counts, initial=str(other))
    shutil.move(path + "_away", path)
    assert refill(engine.pipeline, engine.layout, "gold.counts") is not None
    assert shop.run(Counts, "c", initial=path) == [("a", 101), ("a", 102), ("b", 201), ("c", 301)]


def test_a_folder_that_was_moved_or_copied_goes_on(shop: Shop, tmp_path: Path) -> None:
    """Spark names the schemas of state by whole paths: those of the copy are read, not of the original."""
    assert shop.run(Counts, "a") == [("a", 1)]
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.move(tmp_path / "data", moved / "data")
    shop.settings = make_settings(moved, "none:1")
    engine = shop.engine(Counts)
    state = engine.checkpoint("gold.counts") / "state"

    def written() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in state.rglob("*") if file.is_file()}

    before = written()
    given = engine.pipeline, engine.settings, engine.layout
    assert recover_all(*given, is_plan=True, spark=lambda: shop.spark).steps == ()
    assert written() == before
    assert recover_all(*given, spark=lambda: shop.spark).steps == ()
    assert written() != before
    assert shop.run(WithWord, "a") == [("a", 1), ("a", 2)]
    assert shop.run(WithWord, "b") == [("a", 1), ("a", 2), ("b", 1)]
