"""A gold table beside a real PostgreSQL: types, one snapshot, and no password in any message."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from common.config.paths import Layout
from common.errors import TableError, UsageError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.cli.main import app
from orchestration.quality.session import QualitySession
from orchestration.quality.versions import pin
from tests.conftest import make_settings
from tests.support.servers.postgres import PASSWORD, Postgres, postgres

pytestmark = pytest.mark.long

pytest.importorskip("duckdb_extension_postgres_scanner", reason="the extra reconcile is not installed")

FILE = """
from common.declare import Json, Pipeline, Silver, Topic, Upsert

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("customers")],
    silver=[Silver("customers", reads="bronze.customers", value=Json("id bigint, at timestamp"),
                   columns={"id": "id", "at": "at"}, key=["id"], event_time="at", watermark="7 days")],
    gold=[Upsert("customers", "silver.customers", key=["id"], newest_by=["at"], columns=["id", "at"])],
)
"""
NOON = datetime(2026, 3, 29, 12, 0, 0, 250_000, UTC)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


class Shop:
    """A pipeline whose gold table is compared by the command."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pipeline.py"
        self.file.write_text(FILE)
        settings = make_settings(folder, "none:1")
        self.layout = Layout.of(load_pipeline(self.file), settings)
        self.data = str(settings.data_dir)

    def gold(self, rows: pa.Table) -> None:
        write_deltalake(self.layout.table_path("gold.customers"), rows, mode="overwrite")

    def run(self, *words: str) -> Result:
        given = ["reconcile", "gold.customers", "-p", str(self.file), "--set", f"data_dir={self.data}"]
        return CliRunner().invoke(app, [*given, *words])


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path)


def row(number: int, **other: Any) -> dict[str, Any]:
    content = {
        "id": number,
        "name": f"Ann {number} 'ü' \u202e",
        "score": Decimal("12.340"),
        "share": 0.1,
        "is_new": True,
        "born": date(1999, 12, 31),
        "at": NOON,
    }
    return content | other


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("score", pa.decimal128(12, 3)),
        ("share", pa.float64()),
        ("is_new", pa.bool_()),
        ("born", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def rows(*given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(given), SCHEMA)


def fill(server: Postgres, name: str, count: int) -> None:
    server.run(
        f"CREATE TABLE {name} (id integer PRIMARY KEY, name varchar(40), score numeric(10, 2), "
        "share double precision, is_new boolean, born date, at timestamptz);"
        f"INSERT INTO {name} SELECT n, 'Ann ' || n || ' ''ü'' \u202e', 12.34, 0.1, true, '1999-12-31', "
        f"'2026-03-29 14:00:00.25+02' FROM generate_series(1, {count}) AS n"
    )


def test_the_same_rows_are_equal_whatever_their_types(server: Postgres, shop: Shop) -> None:
    fill(server, "same", 5)
    shop.gold(rows(*map(row, range(1, 6))))
    done = shop.run("--against", server.url("public.same"))
    assert done.exit_code == 0, done.output
    assert "has the rows of postgresql://127.0.0.1" in done.stderr
    assert PASSWORD not in done.output


def test_what_differs_is_named_and_its_values_are_printed_where_asked_for(
    server: Postgres, shop: Shop
) -> None:
    fill(server, "unlike", 5)
    server.run(
        "UPDATE unlike SET name = 'secret name', score = 12.35 WHERE id = 3; DELETE FROM unlike WHERE id = 4"
    )
    shop.gold(rows(*map(row, [1, 2, 3, 4])))
    done = shop.run("--against", server.url("unlike"))
    assert done.exit_code == 1
    assert "3 keys are not the same" in str(done.exception)
    assert "secret name" not in done.output
    document = json.loads(shop.run("--against", server.url("unlike"), "--json", "--values").stdout)
    assert document["keys"] == {
        "equal": 2,
        "missing": 1,
        "extra": 1,
        "differs": 1,
        "repeated": 0,
        "not_yet": 0,
        "ahead": 0,
        "settled": 0,
    }
    (one,) = [one for one in document["differences"] if one["kind"] == "differs"]
    assert one["key"] == {"id": 3}
    assert one["columns"] == ["name", "score"]
    assert (one["there"]["name"], one["there"]["score"], one["here"]["score"]) == (
        "secret name",
        "12.350",
        "12.340",
    )
    assert one["here"]["name"] == "Ann 3 'ü' \\u202e"


def test_all_rows_are_of_one_moment(server: Postgres, shop: Shop) -> None:
    """Money moves between two rows all the time: a comparison that reads both sees the same sum."""
    server.run(
        "CREATE TABLE accounts (id integer PRIMARY KEY, n bigint);"
        "INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 20000) AS n"
    )
    numbers = pa.table({"id": pa.array(range(1, 20001), pa.int64()), "n": pa.array([0] * 20000, pa.int64())})
    shop.gold(numbers)
    ended = threading.Event()

    def move() -> None:
        while not ended.is_set():
            server.run(
                "BEGIN; UPDATE accounts SET n = n - 1 WHERE id = 1; "
                "UPDATE accounts SET n = n + 1 WHERE id = 20000; COMMIT"
            )

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for _ in range(5):
            done = shop.run("--against", server.url("accounts"), "--json", "--values")
            moved = [one["there"]["n"] for one in json.loads(done.stdout)["differences"]]
            assert moved in ([], [-max(moved or [0]), max(moved or [0])]), moved
    finally:
        ended.set()
        mover.join()


@pytest.mark.parametrize(
    ("against", "kind", "says"),
    [
        ("postgresql://shop@127.0.0.1:{port}/shop", UsageError, "names no table"),
        ("postgresql://shop@127.0.0.1:{port}/shop?table=nothing", TableError, "nothing"),
        (
            "postgresql://shop:wr0ng@127.0.0.1:{port}/shop?table=same",
            TableError,
            "password authentication failed",
        ),
        ("postgresql://shop@127.0.0.1:1/shop?table=same", TableError, "refused"),
    ],
)
def test_a_database_that_cannot_be_read_is_one_line(
    server: Postgres, shop: Shop, against: str, kind: type[Exception], says: str
) -> None:
    shop.gold(rows(row(1)))
    done = shop.run("--against", against.format(port=server.port))
    assert isinstance(done.exception, kind), done.output
    assert says in str(done.exception)
    assert "wr0ng" not in str(done.exception) + done.output


def test_a_suite_compares_a_table_with_postgresql(server: Postgres, shop: Shop) -> None:
    fill(server, "suite", 5)
    shop.gold(rows(*map(row, range(1, 6))))
    declared = f"[SameAs({server.url('public.suite')!r})]"
    shop.file.write_text(
        FILE.replace("Silver, Topic", "Quality, SameAs, Silver, Topic").replace(
            "\n)\n", f'\n    quality=[Quality("gold.customers", {declared})],\n)\n'
        )
    )
    pipeline = load_pipeline(shop.file)
    session = QualitySession(pipeline, make_settings(shop.file.parent, "none:1"), shop.layout, _no_spark)

    def observed() -> tuple[bool, str]:
        pinned = pin(shop.layout, "gold.customers")
        ((_, result),) = session.evaluate([(pipeline.quality[0], pinned)])
        return result.is_met, result.checked[0].observed

    assert observed() == (True, "keys: 5 the same")
    server.run("UPDATE suite SET name = 'other' WHERE id = 3; DELETE FROM suite WHERE id = 4")
    is_met, text = observed()
    assert (is_met, "1 extra, 1 differs" in text or "1 differs, 1 extra" in text) == (False, True)
    assert PASSWORD not in text


def _no_spark() -> Any:
    raise AssertionError("this suite needs no Spark")
