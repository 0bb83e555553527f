"""Delta tables that other projects publish as samples of the format: read right, or refused by a word.

``DELTA_TABLES`` names a folder with such tables in it, such as the golden tables of Delta's own repository; a
table in ``delta/`` beside ``expected/latest/table_content`` is also compared with those Parquet files.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from common.declare import DeltaTable, Pipeline
from common.errors import MedallionError
from tests.conftest import make_settings
from tests.support.engine import Engine

FOLDER = Path(os.environ.get("DELTA_TABLES", ""))
TABLES = sorted(log.parent.relative_to(FOLDER) for log in FOLDER.rglob("_delta_log")) if FOLDER.name else []

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not TABLES, reason="DELTA_TABLES names no folder with Delta tables"),
]


def multiset(frame: Any) -> Counter[str]:
    try:
        return Counter(map(str, frame.toArrow().to_pylist()))
    except pa.ArrowInvalid:  # an array of variants with a null in it has no Arrow form
        rows = frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) as row")
        return Counter(row.row for row in rows.collect())


def expected(spark: Any, table: Path) -> Counter[str] | None:
    """The rows of a table, by Parquet files beside it, else by Spark's batch reader; None: it reads none."""
    beside = FOLDER / table.parent / "expected" / "latest" / "table_content"
    try:
        if beside.is_dir():
            return multiset(spark.read.parquet(str(beside)))
        return multiset(spark.read.format("delta").load(str(FOLDER / table)))
    except Exception:  # noqa: BLE001  # whatever Spark says of a table that it does not read
        return None


def test_each_published_table_is_read_right_or_refused(spark: Any, tmp_path: Path) -> None:
    told: dict[str, str] = {}
    for number, table in enumerate(TABLES):
        folder = tmp_path / str(number)
        source = folder / "source"
        shutil.copytree(FOLDER / table, source)
        want = expected(spark, table)
        by_spark = "Spark reads it" if want is not None else "as by Spark"
        pipeline = Pipeline(name="p", bronze=[DeltaTable("t", str(source))], silver=[])
        engine = Engine(spark, pipeline, make_settings(folder, "none:1"))
        try:
            engine.run("bronze")
        except MedallionError as error:
            is_named = str(source) in str(error)
            told[f"{table}"] = f"refused ({by_spark}){'' if is_named else ' UNNAMED'}: {error}"
        except Exception as error:  # noqa: BLE001  # what is to be found here
            told[f"{table}"] = f"WRONG, fails ({by_spark}): {type(error).__name__}: {str(error)[:300]}"
        else:
            rows = spark.read.format("delta").load(engine.path("bronze.t"))
            found = multiset(rows.select("value.*"))
            is_equal = found == want
            told[f"{table}"] = f"{'read' if is_equal else 'WRONG, other rows'}: {found.total()} ({by_spark})"
        shutil.rmtree(folder)
        with (tmp_path / "report.txt").open("a", encoding="utf-8") as report:
            report.write(f"{table}: {told[f'{table}']}\n")
    assert {table: text for table, text in told.items() if "WRONG" in text or "UNNAMED" in text} == {}
