"""The JSON lines of Spark's JVM: one object per event; of an exception the class and stack alone."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path

import pyspark

from common.config.settings import Settings
from common.java.compile_sources import compiled
from common.java.find_java import find_java

VALUE = "ann@shop.example"
SOURCE = """
import org.apache.logging.log4j.LogManager;

public class Failing {
    public static void main(String[] arguments) {
        Thread.currentThread().setName("stream execution thread for silver.orders [id = 1, runId = 2]");
        LogManager.getLogger("shop").error("a query failed", new IllegalStateException("value '%s'"));
        LogManager.getLogger("shop").warn("slow");
    }
}
"""


def test_an_event_is_one_object_and_no_exception_says_a_value(tmp_path: Path) -> None:
    java, jars = find_java(Settings()), Path(pyspark.__file__).parent / "jars"
    log4j = sorted(jars.glob("log4j-*.jar"))
    for name, content in compiled({"Failing.java": SOURCE.replace("%s", VALUE)}, java, log4j).items():
        (tmp_path / name).write_bytes(content)
    folder = Path(str(files("common.spark")))
    given = {
        "log4j2.configurationFile": folder / "log4j2-json.properties",
        "medallion.log.template": (folder / "log-event.json").as_uri(),
        "medallion.log": tmp_path / "jvm.log",
        "medallion.pipeline": "shop",
    }
    options = [f"-D{name}={value}" for name, value in given.items()]
    subprocess.run(
        [str(java.executable), "-cp", f"{tmp_path}:{jars}/*", *options, "Failing"],
        check=True,
        timeout=120,
        capture_output=True,
    )
    text = (tmp_path / "jvm.log").read_text()
    failed, slow = map(json.loads, text.splitlines())
    assert (failed["level"], failed["event"], failed["query"]) == ("error", "a query failed", "silver.orders")
    assert (failed["exception"], failed["pipeline"]) == ("java.lang.IllegalStateException", "shop")
    assert failed["stack"][0]["method"] == "main"
    assert (slow["level"], slow["event"]) == ("warn", "slow")
    assert VALUE not in text
