"""Gates of quality suites on real tables: the pointer moves only to versions that passed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import Layout, queryable_tables
from common.config.settings import load_settings
from common.declare import Aggregate, InRange, Pipeline, Quality, Topic
from common.delta.log import LogReader
from common.delta.published_pointer import read_published
from common.errors import QualityFailedError, TableMissingError, UsageError
from orchestration.access.query.duckdb_views import Database, run_query
from orchestration.quality import results
from orchestration.records.audit.gold.changes import published_faults
from orchestration.run import quality_gates
from orchestration.run.maintenance import plan_maintenance
from orchestration.run.quality_gates import QualityGates
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.support.shops import plain_silver

TABLE = "gold.totals"


def declared(gate: Any, least: int = 0) -> Pipeline:
    """A pipeline whose gold table must not have negative totals."""
    return Pipeline(
        name="shop",
        bronze=[Topic("orders")],
        silver=[plain_silver("orders", "id string, amount int, at timestamp")],
        gold=[Aggregate("totals", reads="silver.orders", by=["id"], measures={"total": "sum(amount)"})],
        quality=[Quality(TABLE, [InRange("total", min=least)], gate=gate)],
    )


class Work:
    """A job's gates, over a table that the test writes."""

    def __init__(self, folder: Path, gate: Any, layers: Any = ("gold",), **settings: str) -> None:
        given = [f"data_dir={folder}", *(f"quality.{name}={value}" for name, value in settings.items())]
        self.settings, self.pipeline = load_settings(overrides=given), declared(gate)
        self.layout = Layout.of(self.pipeline, self.settings)
        self.path = self.layout.table_path(TABLE)
        self.supervisor = Supervisor(None, StopSignal(), stop_timeout_seconds=5)  # type: ignore[arg-type]
        wiring = Wiring(None, self.pipeline, self.settings, self.layout, "")  # type: ignore[arg-type]
        self.gates = QualityGates(wiring, self.supervisor, layers)

    def write(self, *totals: int) -> None:
        """Overwrite the table, as an aggregate does."""
        rows = pa.table({"id": [str(n) for n in range(len(totals))], "total": list(totals)})
        write_deltalake(self.path, rows, mode="overwrite")

    @property
    def published(self) -> int | None:
        """The published version."""
        found = read_published(self.path)
        return None if found is None else found.version

    def query(self, sql: str) -> list[Any]:
        """Rows of ``medallion query``."""
        found = run_query(Database(), self.layout, queryable_tables(self.pipeline), sql)
        return [row for batch in found.batches for row in batch]


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition is met."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 30 seconds"
        time.sleep(0.05)


@pytest.fixture
def publishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    """Gates that publish, running in their thread, which looks at once at each version."""
    monkeypatch.setattr(quality_gates, "_PAUSE_PER_SECOND", 0)
    work = Work(tmp_path, "publish", gate_interval="0.001 seconds")
    with work.gates.running():
        yield work


def test_readers_stay_on_the_last_version_that_passed(
    publishing: Work, capsys: pytest.CaptureFixture[str]
) -> None:
    """A good version is published, a bad one is not, the next good one is; every reader follows."""
    publishing.write(1, 2)
    eventually(lambda: publishing.published == 0)
    publishing.write(1, -2)
    eventually(lambda: any(row.version == 1 for row in results.read(publishing.layout)))
    time.sleep(0.2)
    assert publishing.published == 0
    assert publishing.query("select total from gold.totals__published order by 1") == [(1,), (2,)]
    assert publishing.query("select total from gold.totals order by 1") == [(-2,), (1,)]
    pointer = DeltaTable(f"{publishing.path}__published").to_pyarrow_table().to_pylist()[0]
    assert (pointer["table"], pointer["version"]) == (TABLE, 0)
    version = pl.read_delta(f"{publishing.path}__published")["version"].item()
    assert sorted(pl.read_delta(publishing.path, version=version)["total"]) == [1, 2]
    connection = Database().connection
    connection.execute(f"SET VARIABLE v = (SELECT version FROM delta_scan('{publishing.path}__published'))")
    read = connection.execute(
        f"SELECT total FROM delta_scan('{publishing.path}', version = getvariable('v'))"
    )
    assert sorted(read.fetchall()) == [(1,), (2,)]
    publishing.write(3)
    eventually(lambda: publishing.published == 2)
    printed: list[str] = []

    def has_told() -> bool:  # after it has published
        printed.append(capsys.readouterr().err)
        return "version 2 passed" in " ".join("".join(printed).split())

    eventually(has_told)
    said = " ".join("".join(printed).split())
    assert "version 0 passed; readers of gold.totals__published get it" in said
    assert (
        "version 1 of gold.totals failed its quality suite (in_range total: 1 of 2 rows do not meet it)"
        in said
    )
    assert "Readers of gold.totals__published stay on version 0" in said


def test_a_published_version_that_an_older_copy_has_replaced_is_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its number another version would be published, which no suite has judged."""
    work = Work(tmp_path, "publish")
    work.write(1)
    older = shutil.copytree(work.path, tmp_path / "older")
    work.write(2)
    work.gates.judge(evaluate=True)
    assert work.published == 1
    shutil.rmtree(work.path)
    shutil.copytree(older, work.path)
    with pytest.raises(UsageError, match="names version 1, and the table ends with version 0"):
        work.query("select total from gold.totals__published")
    work.write(-3)
    with pytest.raises(UsageError, match="version 1, which is another one now than the one that was"):
        work.query("select total from gold.totals__published")
    (fault,) = published_faults(work.pipeline, work.pipeline.silver[0], work.layout)
    assert (fault.name, "another one now" in fault.text) == ("published", True)
    with Work(tmp_path, "publish").gates.running():
        assert work.published is None
    assert "gold.totals__published is taken back" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no version is published"):
        work.query("select total from gold.totals__published")


def test_a_damaged_pointer_to_the_published_version_does_not_end_a_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Work(tmp_path, "publish")
    work.write(1)
    work.gates.judge(evaluate=True)
    (pointer,) = Path(f"{work.path}__published").glob("*.parquet")
    pointer.write_bytes(pointer.read_bytes()[:60])
    again = Work(tmp_path, "publish")
    with again.gates.running():
        assert "which version of gold.totals is published cannot be told" in capsys.readouterr().err
    again.gates.judge(evaluate=True)
    assert again.published == 0


def test_the_end_of_a_backfill_evaluates_the_newest_version_and_fails(tmp_path: Path) -> None:
    """Each version once, also where the thread has evaluated it."""
    work = Work(tmp_path, "publish")
    work.write(5)
    work.gates.judge(evaluate=True)
    work.gates.judge(evaluate=True)
    assert (work.published, len(results.read(work.layout))) == (0, 1)
    work.write(-5)
    with pytest.raises(
        QualityFailedError, match=r"version 1 of gold\.totals failed its quality suite"
    ) as raised:
        work.gates.judge(evaluate=True)
    assert raised.value.exit_code == 3
    work.gates.judge(evaluate=False)  # a stopped job fails only for a query that a gate stopped
    assert work.published == 0


def test_a_stop_gate_closes_the_query_of_its_table_only(tmp_path: Path) -> None:
    """The other queries of the process still start micro-batches."""
    work = Work(tmp_path, "stop")
    work.write(5)
    work.gates.judge(evaluate=True)
    assert work.supervisor.gate.admits(TABLE)
    work.write(-5)
    with pytest.raises(QualityFailedError):
        work.gates.judge(evaluate=True)
    assert not work.supervisor.gate.admits(TABLE)
    assert work.supervisor.gate.admits("silver.orders")
    with pytest.raises(QualityFailedError):  # also when the job was stopped by a signal
        work.gates.judge(evaluate=False)
    assert work.published is None


def test_a_job_has_the_gates_of_the_layers_that_it_runs(tmp_path: Path) -> None:
    """The silver job does not judge gold."""
    work = Work(tmp_path, "publish", layers=("silver",))
    work.write(5)
    work.gates.judge(evaluate=True)
    assert work.published is None


def test_a_version_that_cannot_be_evaluated_is_reported_and_published_by_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one whose files are gone."""
    work = Work(tmp_path, "publish")
    work.write(5)
    for file in Path(work.path).glob("*.parquet"):
        file.unlink()
    with pytest.raises(QualityFailedError, match=r"gold\.totals: cannot evaluate the newest version"):
        work.gates.judge(evaluate=True)
    assert "cannot evaluate the newest version" in " ".join(capsys.readouterr().err.split())
    assert work.published is None


def test_a_table_without_a_published_version_is_named_with_the_way_out(tmp_path: Path) -> None:
    """No version has passed."""
    work = Work(tmp_path, "publish")
    work.write(-1)
    with pytest.raises(TableMissingError, match="No version has passed its quality suite yet"):
        work.query("select * from gold.totals__published")


def test_maintenance_keeps_the_files_of_the_published_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they are older than the retention; until then VACUUM does not delete them."""
    work = Work(tmp_path, "publish")
    work.write(1)
    work.gates.judge(evaluate=True)
    work.write(-1)
    assert plan_maintenance(work.pipeline, work.layout, TABLE).kept_because == ""
    log = LogReader(work.path)
    write_deltalake(
        work.path,
        pa.table({"id": ["0"], "total": [-1]}),
        mode="overwrite",
        configuration={"delta.deletedFileRetentionDuration": "interval 0 seconds"},
    )
    commit = log.commit(1)
    assert commit is not None
    assert commit.timestamp < datetime.now(UTC)
    table = DeltaTable(work.path)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    kept = plan_maintenance(work.pipeline, work.layout, TABLE).kept_because
    assert "readers of gold.totals__published read its version 0" in kept


def test_a_table_that_was_only_created_is_not_judged(tmp_path: Path) -> None:
    """A job creates its tables before the first row; a stop gate would stop its query for that."""
    work = Work(tmp_path, "publish")
    DeltaTable.create(work.path, pa.schema([("id", pa.string()), ("total", pa.int64())]))
    work.gates.judge(evaluate=True)
    assert (work.published, results.read(work.layout)) == (None, [])
