"""``medallion query`` opens the pipeline's tables and nothing else, unless ``--unsafe`` is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from deltalake import write_deltalake
from typer.testing import CliRunner

from common.config.paths import Layout
from common.errors import UsageError
from orchestration.access.query import duckdb_views
from orchestration.access.query.duckdb_views import Database, run_query
from orchestration.cli.access import query as command
from orchestration.cli.options import register

TABLES = ("silver.quakes", "gold.latest")

PIPELINE = """
from common.declare import Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="earthquakes",
    bronze=[Topic("quakes")],
    silver=[Silver("quakes", reads="bronze.quakes", value=Json("id string, at timestamp"),
                   columns={"quake_id": "id", "event_at": "at"}, key=["quake_id"], event_time="event_at",
                   watermark="7 days")],
)
"""


def tables_in(folder: Path) -> Layout:
    made = Layout(str(folder / "data/earthquakes/tables"), str(folder / "cp"), folder)
    for _ in range(2):
        rows = pa.table({"quake_id": ["a", "b"], "magnitude": [1.5, None]})
        write_deltalake(made.table_path("silver.quakes"), rows, partition_by=["quake_id"], mode="append")
    return made


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return tables_in(tmp_path)


@dataclass(frozen=True)
class Attacked:
    """Tables, and a folder beside them with a text file and a Delta table; the table has a link to the text
    file. All attempts share one confined database: none of them may open it for the next.
    """

    layout: Layout
    outside: Path
    database: Database
    unconfined: Database


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    folder = tmp_path_factory.mktemp("attacked")
    layout, outside = tables_in(folder), folder / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("word\nswordfish\n")
    write_deltalake(outside / "table", pa.table({"word": ["swordfish"]}))
    Path(layout.table_path("silver.quakes"), "link.csv").symlink_to(outside / "secret.csv")
    return Attacked(layout, outside, confined(layout), Database())


def confined(layout: Layout) -> Database:
    return Database([layout.table_path(table) for table in TABLES])


def rows(database: Database, layout: Layout, sql: str) -> list[tuple[object, ...]]:
    return [row for batch in run_query(database, layout, TABLES, sql).batches for row in batch]


READS = (
    "select * from read_text('{outside}/secret.csv')",
    "select * from read_csv('{outside}/secret.csv')",
    "select * from '{outside}/secret.csv'",
    "from glob('{outside}/*')",
    "select (select max(content) from read_text('{outside}/secret.csv')) from silver.quakes",
    "with x as (from read_blob('{outside}/secret.csv')) from x",
    "explain analyze select * from read_text('{outside}/secret.csv')",
    "summarize from read_csv('{outside}/secret.csv')",
    "select * from delta_scan('{outside}/table')",
    "select * from delta_scan('{table}/../../../../../outside/table')",
    "select * from query('from read_text(''{outside}/secret.csv'')')",
    "select * from query_table(['{outside}/secret.csv'])",
    "select * from read_text('{table}/link.csv')",
    "select * from read_text('http://127.0.0.1:9/x')",
    "select * from delta_scan('http://127.0.0.1:9/x')",
    "select * from parquet_scan('s3://bucket/x')",
    "from sniff_csv('{outside}/secret.csv')",
    "select 1; select * from read_text('{outside}/secret.csv')",
)
WRITES = (
    "copy (select 1) to '{outside}/new.csv'",
    "copy (select 1) to '{table}/new.csv'",
    "export database '{table}/new'",
    "attach '{outside}/new.db'",
    "attach '{table}/new.db'",
    "explain analyze copy (select 1) to '{table}/new.csv'",
    "/* a */ explain copy (select 1) to '{table}/new.csv'",
    "select 1; copy (select 1) to '{outside}/new.csv'",
    "create table new as select 1",
    "drop view silver.quakes",
)
SETTINGS = (
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "reset lock_configuration",
    "pragma import_database('{outside}')",
    "call pragma_version()",
    "create secret s (type s3, key_id 'a', secret 'b')",
)


@pytest.mark.parametrize("sql", [*READS, *WRITES, *SETTINGS])
def test_sql_that_opens_anything_else_is_refused(attacked: Attacked, sql: str) -> None:
    table, outside = attacked.layout.table_path("silver.quakes"), attacked.outside
    with pytest.raises(UsageError) as refused:
        rows(attacked.database, attacked.layout, sql.format(outside=outside, table=table))
    assert "swordfish" not in str(refused.value)
    assert not list(outside.glob("new*"))
    assert not list(Path(table).glob("new*"))


@pytest.mark.parametrize(
    "sql",
    [
        "select quake_id, count(*) from silver.quakes group by 1 order by 1",
        "with n as (from silver.quakes) select quake_id, count(*) from n group by all order by 1",
        "pivot silver.quakes on quake_id in ('a', 'b') using count(*)",
        "describe silver.quakes",
        "summarize silver.quakes",
        "-- a plan\nexplain analyze select * from silver.quakes where quake_id = 'a'",
        "from range(3)",
        "select unnest([1, 2])",
        "select view_name from duckdb_views() where schema_name = 'silver' or view_name = 'duckdb_views'",
    ],
)
def test_queries_of_the_tables_run(attacked: Attacked, sql: str) -> None:
    """And give the same rows as in a database that may open everything."""
    found = rows(attacked.database, attacked.layout, sql)
    assert found
    if "explain" not in sql:
        expected = rows(attacked.unconfined, attacked.layout, sql)
        assert sorted(map(str, found)) == sorted(map(str, expected))


def test_queries_run_where_delta_rs_reads_the_tables(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> Path:
        raise FileNotFoundError(f"no {name}.duckdb_extension")

    monkeypatch.setattr(duckdb_views, "extension_file", gone)
    database = confined(layout)
    assert rows(database, layout, "select count(*) from silver.quakes") == [(4,)]
    with pytest.raises(UsageError, match="--unsafe"):
        rows(database, layout, "from read_text('/etc/passwd')")


def test_a_sort_larger_than_memory_still_has_its_temporary_files(layout: Layout) -> None:
    database = confined(layout)
    sql = "select count(*) from (select hash(range) h from range(3000000) order by h) t"
    assert rows(database, layout, sql) == [(3_000_000,)]


def test_wrong_sql_has_duckdbs_own_message(layout: Layout) -> None:
    with pytest.raises(UsageError, match="syntax error at or near"):
        rows(confined(layout), layout, "selec 1")


def test_the_command_is_confined_unless_told_otherwise(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDALLION_PIPELINE", "pipeline.py")
    app = typer.Typer()
    register(app, command)
    sql = f"copy (select quake_id from silver.quakes order by 1) to '{outside}/copy.csv'"
    refused = CliRunner().invoke(app, [sql])
    assert isinstance(refused.exception, UsageError)
    assert "--unsafe" in str(refused.exception)
    assert not (outside / "copy.csv").exists()
    assert CliRunner().invoke(app, [sql, "--unsafe"]).exit_code == 0
    assert (outside / "copy.csv").read_text() == "quake_id\na\na\nb\nb\n"
