"""What commands refuse is said before Spark starts: tests/spec/commands."""

from __future__ import annotations

import json
import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from bronze.table import SCHEMA
from orchestration.access.progress.record_range import parse_range
from tests.support import in_process
from tests.support.documents import chapters
from tests.unit.orchestration.cli.test_plan import SHOP
from tests.unit.test_docs_commands import refusal

ROOT = Path(__file__).parents[4]

POSITIONS = {"orders": {"0": 3, "1": 1}}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's pipeline, with records of a topic and of files; silver has read nothing."""
    shop = tmp_path_factory.mktemp("refused") / "shop.py"
    (shop.parent / "medallion.yaml").write_text("pipeline: shop.py\n", encoding="utf-8")
    shop.write_text(
        SHOP.replace("import ", "import Files, ", 1).replace(
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


REFUSED = {row.place: row for row in chapters.rows(ROOT / "tests" / "spec" / "commands" / "refused.md")}


@pytest.mark.parametrize("place", REFUSED)
def test_what_cannot_be_done_is_refused_before_spark_starts(
    filled: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """``WRITE_CHAPTERS=1`` writes what is said now."""
    monkeypatch.chdir(filled.parent)
    row = REFUSED[place]
    words = shlex.split(chapters.code(row.cells[0]))[1:]
    ended = in_process.run(*words)
    assert "Traceback" not in ended.stderr
    said = said_of(ended, is_document="check" in words and "--json" in words) or "nothing"
    if "WRITE_CHAPTERS" in os.environ:
        row.write({1: str(ended.code), 2: said})
    else:
        assert (str(ended.code), said) == row.cells[1:]
    assert not list(filled.parent.glob("data/**/*.jvm.log"))


def said_of(ended: in_process.Ended, *, is_document: bool) -> str:
    """The error, or the mistakes of a document with their codes."""
    if is_document:
        problems = json.loads(ended.stdout)["problems"]
        return "<br>".join(f"{one['code']}: {one['message']}" for one in problems)
    return " ".join(ended.stderr.replace(str(Path.cwd()), "…").split()).partition("rror: ")[2]


def test_where_the_newest_row_is_kept_a_replay_names_the_command_that_judges_again(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of files are in no topic to which they could be sent again."""
    monkeypatch.chdir(filled.parent)
    newest = filled.with_name("newest.py")
    newest.write_text(
        filled.read_text(encoding="utf-8").replace(
            'key=["order_id"],', 'key=["order_id"], dedupe="exact", keep="newest",'
        )
    )
    ended = in_process.run("quarantine", "replay", "-t", "orders", "-p", "newest.py")
    (command,) = re.findall(r"medallion (restate \S+ --from \S+);", ended.error)
    assert refusal(command.split(), is_whole=True) == ""
    assert parse_range(command.split()[-1], None).begin == datetime(1970, 1, 1, tzinfo=UTC)
