"""The proof of a table whose rows are marked as deleted by a deletion vector, as Delta's protocol has it."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import Pipeline
from tests.conftest import make_settings
from tests.support.oracles.proof import checks, different
from tests.unit.orchestration.records.proof.test_proof import unpacked

_MAGIC, _ARRAY_COOKIE = 1681511377, 12346
_SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(given: bytes) -> str:
    """Bytes as text, four as five characters."""
    text = ""
    for (number,) in struct.iter_unpack(">I", given):
        text += "".join(_SIGNS[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def bitmap(rows: Sequence[int]) -> bytes:
    """The places of some rows of a file with less than 65,536 rows, as a portable roaring bitmap."""
    places = b"".join(struct.pack("<H", row) for row in sorted(rows))
    roaring = struct.pack("<IIHHI", _ARRAY_COOKIE, 1, 0, len(rows) - 1, 16) + places
    return struct.pack("<IQI", _MAGIC, 1, 0) + roaring


def mark(table: str, file: str, rows: Sequence[int], told: str = "") -> None:
    """Commit a deletion vector, in a file of its own, that marks rows of a data file."""
    log, found, name = Path(table) / "_delta_log", bitmap(rows), uuid4()
    crc = struct.pack(">I", zlib.crc32(found))
    vector = b"\x01" + struct.pack(">I", len(found)) + found + crc
    (Path(table) / f"deletion_vector_{name}.bin").write_bytes(vector)
    actions = [
        json.loads(line) for each in sorted(log.glob("*.json")) for line in each.read_text().splitlines()
    ]
    added = next(one["add"] for one in reversed(actions) if one.get("add", {}).get("path") == file)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    stored = {
        "storageType": "u",
        "pathOrInlineDv": z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(found),
        "cardinality": len(rows),
    }
    remove: dict[str, Any] = {"path": file, "deletionTimestamp": 1, "dataChange": True}
    commit = [
        {"commitInfo": {"operation": "DELETE", "timestamp": 1_800_000_000_000, "userMetadata": told}},
        {"protocol": {**protocol, **features}},
        {"remove": remove},
        {"add": {**added, "dataChange": True, "deletionVector": stored}},
    ]
    version = max(int(each.stem) for each in log.glob("*.json")) + 1
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, commit)) + "\n")


def last_file(table: str) -> str:
    """The path of the data file that the newest commit has added."""
    newest = max((Path(table) / "_delta_log").glob("*.json"))
    return next(
        str(json.loads(line)["add"]["path"]) for line in newest.read_text().splitlines() if '"add"' in line
    )


@pytest.mark.long
def test_rows_that_a_deletion_vector_marks_are_not_in_the_proof(tmp_path: Path) -> None:
    pipeline = unpacked(tmp_path)
    declared = Pipeline(
        pipeline.name,
        bronze=pipeline.bronze,
        silver=[one for one in pipeline.silver if one.name == "orders"],
        gold=[one for one in pipeline.gold if one.name == "totals"],
    )
    layout = Layout.of(declared, make_settings(tmp_path, "none:1"))
    table = layout.table_path("gold.totals")
    rows = DeltaTable(table).to_pyarrow_table()
    metadata = DeltaTable(table).history(1)[0]["userMetadata"]
    doubled = pa.concat_tables([rows, rows.slice(0, 1)]).combine_chunks()
    write_deltalake(table, doubled, mode="overwrite")
    assert set(different(checks(declared, layout))) == {"gold.totals: equals its definition"}
    file = last_file(table)
    mark(table, file, [rows.num_rows], metadata)
    found = checks(declared, layout)
    assert different(found) == {}
    assert {one.verdict for one in found if one.about == "gold.totals"} == {"equal"}
    mark(table, file, [0, rows.num_rows], metadata)
    assert set(different(checks(declared, layout))) == {"gold.totals: equals its definition"}
