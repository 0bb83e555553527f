"""Settings that may be passwords are on no command line, which every user of the machine can read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from common.machine.processes import command_line
from common.spark.private_properties import submitted_by_file
from tests.support.processes import DEADLINE_SECONDS, ROOT

VALUE = "hunter2 \u00fc=\\#:!"
NAME = "spark.hadoop.fs.s3a.secret.key"

_SCRIPT = """
import json, sys
from pathlib import Path
from common.config.settings import load_settings
from common.spark.session import build_session

folder = Path(sys.argv[1])
settings = load_settings(file=folder / "medallion.yaml")
spark = build_session(settings, "job", folder / "log", compiled="quickly")
java = spark._jvm.java.lang
found = {
    "session": spark.conf.get(sys.argv[2]),
    "start": java.System.getProperty(sys.argv[2]),
    "heap": java.Runtime.getRuntime().maxMemory(),
}
print(json.dumps(found), flush=True)
sys.stdin.read()
spark.stop()
"""


@pytest.mark.ci
def test_a_secret_of_spark_conf_is_not_on_the_command_line_of_the_jvm(tmp_path: Path) -> None:
    """Yet the JVM has it from its start, with the settings that only a start can use."""
    spark = {"driver_memory": "700m", "master": "local[1]", "conf": {NAME: VALUE}}
    (tmp_path / "medallion.yaml").write_text(json.dumps({"spark": spark}))
    running = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(tmp_path), NAME],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        found = json.loads(running.stdout.readline())
        children = psutil.Process(running.pid).children(recursive=True)
        lines = [command_line(child.pid) for child in children]  # empty for a child that has just ended
    finally:
        running.stdin.close()
        running.wait(DEADLINE_SECONDS)
    jvms = [line for line in lines if "org.apache.spark.deploy.SparkSubmit" in line]
    assert len(jvms) == 1
    assert not [line for line in lines if "hunter2" in line]
    assert (found["session"], found["start"]) == (VALUE, VALUE)
    assert found["heap"] < 701 * 1024 * 1024
    assert list(tmp_path.glob("medallion-spark-*")) == []


@pytest.mark.long
def test_the_file_is_the_users_alone_and_the_users_own_arguments_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A properties file of the user's is part of the one file that Spark reads."""
    own = tmp_path / "own.conf"
    own.write_text("spark.own 1")
    given = f"--properties-file {own} --conf spark.x=2 pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", given)
    with submitted_by_file({"spark.a": "b c"}):
        words = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        file = Path(words[words.index("--properties-file") + 1])
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.read_text() == "spark.own 1\nspark.a=b\\u0020c\n"
        assert words[2:] == ["--load-spark-defaults", "--conf", "spark.x=2", "pyspark-shell"]
    assert not file.exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == given
