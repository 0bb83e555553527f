"""Commands that judge, erase or read records again: what they refuse is said before Spark starts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from typer.testing import CliRunner

from bronze.table import SCHEMA
from common.errors import UsageError
from orchestration.access.progress.record_range import parse_range
from orchestration.cli.main import app
from tests.unit.orchestration.cli.test_plan import shop
from tests.unit.test_docs_commands import refusal

__all__ = ["shop"]

POSITIONS = {"orders": {"0": 3, "1": 1}}


@pytest.fixture
def filled(shop: Path) -> Path:
    """The README's pipeline, with records of a topic and of files; silver has read nothing."""
    shop.write_text(
        shop.read_text(encoding="utf-8")
        .replace("import ", "import Files, ", 1)
        .replace(
            'bronze=[Topic("orders")',
            'bronze=[Topic("orders"), Files("history", "x", "jsonl", into="bronze.orders")',
        ),
        encoding="utf-8",
    )
    places = [("orders", 0, 0), ("orders", 0, 2), ("orders", 1, 0), ("files:history", 0, 0), ("former", 4, 9)]
    columns: dict[str, list[object]] = {name: [None] * len(places) for name in SCHEMA.names}
    columns |= {
        name: [place[at] for place in places] for at, name in enumerate(("topic", "partition", "offset"))
    }
    write(shop, "bronze.orders", pa.table(columns), positions=[POSITIONS])
    names = ["order_id", "customer", "amount", "_kafka_topic", "_kafka_partition", "_kafka_offset"]
    write(shop, "silver.orders", pa.table({name: pa.array([], pa.string()) for name in names}))
    write(
        shop,
        "silver.orders__quarantine",
        pa.table({name: pa.array([], pa.string()) for name in ("topic", "offset")}),
    )
    return shop


def write(shop: Path, table: str, rows: pa.Table, **facts: object) -> None:
    layer, _, name = table.partition(".")
    metadata = {"query": table, "query_id": "q", "batch_id": 0, "step": "append", **facts}
    fields = [pa.field("partition", pa.int32()) if one.name == "partition" else one for one in rows.schema]
    fields = [pa.field(one.name, pa.string()) if pa.types.is_null(one.type) else one for one in fields]
    write_deltalake(
        shop.parent / "data" / "shop" / "tables" / layer / name,
        rows.cast(pa.schema(fields)),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)}),
    )


REFUSED = {
    "a mistyped topic": (["restate", "silver.orders", "--from", "ordrs/0=1"], "did you mean 'orders'"),
    "its plan": (["restate", "silver.orders", "--to", "ordrs/0=1", "--plan"], "no record of a topic ordrs"),
    "a partition": (
        ["restate", "silver.orders", "--from", "orders/7=1"],
        "partition 7 of orders; it has 0, 1",
    ),
    "files": (["restate", "silver.orders", "--from", "files:histry/0=1"], "did you mean 'files:history'"),
    "nothing was read": (["restate", "silver.orders", "--from", "orders/0=1"], "has read nothing yet"),
    "records of files": (["restate", "silver.orders", "--from", "files:history/0=0"], "has read nothing yet"),
    "of a former topic": (["restate", "silver.orders", "--from", "former/4=9"], "has read nothing yet"),
    "a column to erase by": (
        ["erase", "orders", "--yes", "--where", "custmer = 'C7'"],
        "silver.orders has no column custmer; did you mean 'customer'",
    ),
    "a text without quotes": (
        ["erase", "orders", "--yes", "--where", "customer = dee"],
        "customer, order_id. A text stands in quotes: 'dee'.",
    ),
    "a text without quotes to trace": (
        ["trace", "silver.orders", "--where", "customer = dee"],
        "Referenced column \"dee\" not found in FROM clause!. A text stands in quotes: 'dee'.",
    ),
    "a condition to erase by": (["erase", "orders", "--plan", "--where", "customer ="], "--where: "),
    "a column to replay by": (
        ["quarantine", "replay", "-t", "orders", "--where", "topic = 'files:history' and ofset < 3"],
        "has no column ofset; did you mean 'offset'",
    ),
    "another beginning": (["backfill", "--from", "orders/0=1"], "bronze.orders has begun"),
    "its topic": (["backfill", "--to", "ordrs/0=1"], "reads the topic ordrs; did you mean 'orders'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_before_spark_starts(filled: Path, case: str) -> None:
    words, text = REFUSED[case]
    result = CliRunner().invoke(app, [*words, "-p", str(filled)])
    assert isinstance(result.exception, UsageError)
    assert text in str(result.exception)
    assert not list(filled.parent.glob("data/**/*.jvm.log"))


def test_where_the_newest_row_is_kept_a_replay_names_the_command_that_judges_again(filled: Path) -> None:
    """Records of files are in no topic to which they could be sent again."""
    filled.write_text(
        filled.read_text(encoding="utf-8").replace(
            'key=["order_id"],', 'key=["order_id"], dedupe="exact", keep="newest",'
        )
    )
    result = CliRunner().invoke(app, ["quarantine", "replay", "-t", "orders", "-p", str(filled)])
    (command,) = re.findall(r"medallion (restate \S+ --from \S+);", str(result.exception))
    assert refusal(command.split(), is_whole=True) == ""
    assert parse_range(command.split()[-1], None).begin == datetime(1970, 1, 1, tzinfo=UTC)
