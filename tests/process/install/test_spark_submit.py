"""A session under `spark-submit`: what was submitted wins, then the settings, then what the engine sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from common.config.settings import load_settings
from common.java.compile_sources import reader_jar
from common.java.find_java import find_java
from common.java.jar_cache import require
from tests.support.processes import DEADLINE_SECONDS, ROOT

pytestmark = pytest.mark.long

ZONE = "spark.sql.session.timeZone"
RETAINED = "spark.sql.streaming.minBatchesToRetain"
PARTITIONS = "spark.sql.shuffle.partitions"
CODEC = "spark.sql.parquet.compression.codec"

_SCRIPT = """
import json, sys
from pathlib import Path
from common.config.settings import load_settings
from common.spark.session import build_session

folder = Path({folder!r})
given = ["spark.conf.{zone}=Asia/Tokyo", "spark.conf.{retained}=9", "spark.driver_memory=1g"]
spark = build_session(load_settings(file=folder / "medallion.yaml", overrides=given), "job", folder / "log")
names = {names!r}
spark.range(3).write.format("delta").save(str(folder / "table"))
rows = spark.read.format("delta").load(str(folder / "table")).count()
found = {{name: spark.conf.get(name) for name in names}}
(folder / "found.json").write_text(json.dumps(found | {{"rows": rows}}))
spark.stop()
"""


def test_what_was_submitted_wins(tmp_path: Path) -> None:
    """Over the settings of the run, which win over the engine's own; and tables are still Delta's."""
    (tmp_path / "medallion.yaml").touch()
    settings = load_settings(file=tmp_path / "medallion.yaml")
    names = (ZONE, RETAINED, PARTITIONS, CODEC, "spark.master", "spark.app.name")
    script = tmp_path / "job.py"
    script.write_text(_SCRIPT.format(folder=str(tmp_path), names=names, zone=ZONE, retained=RETAINED))
    jars = os.pathsep.join(map(str, (*require(settings, "spark"), reader_jar(settings))))
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-submit"),
        *("--master", "local[1]", "--name", "theirs", "--driver-class-path", jars),
        *("--conf", f"{ZONE}=Europe/Paris", "--conf", f"{PARTITIONS}=7"),
        str(script),
    ]
    env = os.environ | {
        "JAVA_HOME": str(find_java(settings).home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "found.json").read_text()) == {
        ZONE: "Europe/Paris",
        PARTITIONS: "7",
        RETAINED: "9",
        CODEC: "zstd",
        "spark.master": "local[1]",
        "spark.app.name": "theirs",
        "rows": 3,
    }
