"""What strictness costs: our reader against plain from_json, the guard that is known for it, and Jackson.

``JacksonReader.java`` beside this module reads as strictly by Jackson's streaming parser. The engine's own
reader stays for as long as it is at least 1.3 times as fast.

``python tests/bench/parts/strict_json.py``, or ``make bench``. Writes its section of
docs/performance-tables.md: the numbers, and what they were measured on. Ways are interleaved, so that what
else the machine does hits all alike.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from common.config.settings import Settings, load_settings
from common.declare import Json
from common.java.compile_sources import compiled, reader_jar
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.spark import session_conf
from common.spark.session import build_session
from silver.read.value_reader import java_call, read_values, struct_type
from tests.bench.reporting import page
from tests.bench.reporting.page import Cost, timed

DOCUMENTS = 300_000
JACKSON = "strict, by Jackson"
ROUNDS = 5
DDL = (
    "order_id string, customer struct<id: bigint, name: string, email: string, country: string>, "
    "placed_at timestamp, status string, currency string, total decimal(12,2), discount double, "
    "is_gift boolean, items int, shipping struct<method: string, cost: decimal(8,2), latitude: double, "
    "longitude: double>, note string, version int"
)


def documents(seed: int) -> list[tuple[bytes]]:
    """Orders of about 500 bytes with 17 leaf fields, all valid."""
    chance = random.Random(seed)  # noqa: S311
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = []
    for number in range(DOCUMENTS):
        placed = start + timedelta(milliseconds=number * 250)
        order = {
            "order_id": f"{chance.getrandbits(64):016x}-{number:08}",
            "customer": {
                "id": chance.randrange(10**9),
                "name": chance.choice(["Ada Lovelace", "Łucja Żak", "Jean-Pierre Dupont", "Ngọc Trần"]),
                "email": f"customer{chance.randrange(10**6)}@mail.example.org",
                "country": chance.choice(["DE", "FR", "PL", "VN", "US"]),
            },
            "placed_at": placed.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "status": chance.choice(["placed", "paid", "shipped", "returned"]),
            "currency": "EUR",
            "total": chance.randrange(10**7) / 100,
            "discount": round(chance.random(), 4),
            "is_gift": chance.random() < 0.1,
            "items": chance.randrange(1, 20),
            "shipping": {
                "method": chance.choice(["standard", "express"]),
                "cost": chance.randrange(2000) / 100,
                "latitude": round(chance.uniform(-90, 90), 6),
                "longitude": round(chance.uniform(-180, 180), 6),
            },
            "note": "Please leave it with the neighbour on the left, the bell does not ring. " * 2,
            "version": chance.randrange(5),
        }
        found.append((json.dumps(order, ensure_ascii=False, separators=(",", ":")).encode(),))
    return found


def ways(frame: Any) -> dict[str, Any]:
    """Frames that read all fields, by what they are called in the report."""
    schema = struct_type(DDL)
    text = F.col("value").cast("string")
    plain = F.from_json(text, schema, {"mode": "PERMISSIVE"})
    # One document, valid UTF-8, no name twice, nothing after it: as far as Spark's functions can tell.
    wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
    guard = (
        F.is_valid_utf8(text)
        & F.try_parse_json(wrapped).isNotNull()
        & F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))).isNotNull()
    )
    asked = (F.col("__read.value").alias("v"), F.col("__read.fault"), F.col("__read.rescued"))
    return {
        "from_json": frame.select(plain.alias("v")),
        "from_json behind the guard": frame.select(F.when(guard, plain).alias("v")),
        "strict": read_values(frame, Json(DDL)).frame.select(*asked),
        JACKSON: by_jackson(frame).select(*asked),
        "strict, rescuing": read_values(frame, Json(DDL), rescue=True).frame.select(*asked),
    }


def by_jackson(frame: Any) -> Any:
    """The frame of ``strict``, with Jackson's reader in the place of ours."""
    texts = [StructField(name, StringType()) for name in ("fault", "fault_field", "rescued")]
    kind = StructType([*texts, StructField("value", struct_type(DDL))])
    read = java_call("read", kind, F.col("value"), F.lit(declared()), reader="medallion.bench.JacksonReader")
    return frame.withColumn("__read", read)


def declared() -> str:
    """What both readers are told of a value."""
    schema = struct_type(DDL).jsonValue()
    return json.dumps({"format": "json", "schema": schema, "max_bytes": Json(DDL).max_bytes})


def alone(spark: Any, made: list[tuple[bytes]], folder: Path) -> tuple[int, int]:
    """CPU nanoseconds per document without Spark: ours, and Jackson's."""
    file = folder / "documents.json"
    file.write_bytes(b"\n".join(value for (value,) in made[:20_000]))
    ours, jackson = spark._jvm.medallion.bench.JacksonReader.compare(str(file), declared(), 15)
    return ours, jackson


def main() -> None:
    """Measure, print, and write the report."""
    with tempfile.TemporaryDirectory() as scratch:
        spark = build_session(settings(Path(scratch)), "bench", Path(scratch) / "log")
        made = documents(1)
        spark.createDataFrame(made, "value binary").repartition(2).write.parquet(f"{scratch}/documents")
        frame = spark.read.parquet(f"{scratch}/documents").cache()
        assert frame.count() == DOCUMENTS
        frames = ways(frame)
        assert frames["strict"].where("fault is not null").count() == 0
        some = ways(frame.limit(5_000))
        assert some["strict"].exceptAll(some[JACKSON]).count() == 0
        results: dict[str, list[Cost]] = {name: [] for name in frames}
        for _ in range(ROUNDS + 1):  # the first compiles
            for name, each in frames.items():
                run = each.write.format("noop").mode("overwrite").save
                results[name].append(timed(spark, run))
        lines = report({name: rounds[1:] for name, rounds in results.items()}, made, frame)
        ours, jackson = alone(spark, made, Path(scratch))
        lines += [
            "",
            (
                f"Without Spark, CPU per document on one thread: {ours:,} ns by ours, {jackson:,} ns by "
                f"Jackson, {jackson / ours:.2f} times as much."
            ),
        ]
        if "--no-page" in sys.argv:
            sys.stdout.write("\n".join(lines) + "\n")
        else:
            sys.stdout.write(page.write("Reading JSON strictly", lines, spark))
        spark.stop()


def settings(scratch: Path) -> Settings:
    """Two cores, and the engine's jars with a jar of ``JacksonReader`` on the class path."""
    empty = scratch / "medallion.yaml"
    empty.touch()
    chosen = load_settings(file=empty, overrides=["spark.master=local[2]", "spark.driver_memory=3g"])
    jars = [*require(chosen, "spark"), reader_jar(chosen)]
    source = Path(__file__).with_name("JacksonReader.java").read_text(encoding="utf-8")
    classes = compiled({"medallion/bench/JacksonReader.java": source}, find_java(chosen), jars)
    own = scratch / "jackson-reader.jar"
    with zipfile.ZipFile(own, "w") as jar:
        for name, code in classes.items():
            jar.writestr(name, code)
    conf = {session_conf.CLASS_PATH: os.pathsep.join(map(str, [*jars, own]))}
    return chosen.model_copy(update={"spark": chosen.spark.model_copy(update={"conf": conf})})


def report(results: dict[str, list[Cost]], made: list[tuple[bytes]], frame: Any) -> list[str]:
    """The section."""
    tasks = frame.rdd.getNumPartitions()
    size = round(statistics.mean(len(value) for (value,) in made))
    base, jackson = (
        [statistics.median(one[at] for one in results[name]) for at in (0, 1)]
        for name in ("from_json", JACKSON)
    )
    lines = [
        (
            f"{DOCUMENTS:,} documents of {size} bytes on average with 17 leaf fields (texts, numbers, "
            "decimals, a time, two structs), all of them valid and all fields asked for, from memory to "
            f"nowhere, {tasks} task(s). Median of {ROUNDS} rounds in which the ways take turns."
        ),
        "",
        "| way | seconds | CPU seconds | times from_json | times its CPU | times the CPU of Jackson |",
        "|---|---|---|---|---|---|",
    ]
    for name, rounds in results.items():
        clock, cpu = (statistics.median(one[at] for one in rounds) for at in (0, 1))
        times = f"{clock / base[0]:.2f} | {cpu / base[1]:.2f} | {cpu / jackson[1]:.2f}"
        lines.append(f"| {name} | {clock:.2f} | {cpu:.2f} | {times} |")
    lines += [
        "",
        (
            "`strict` gives each fault a reason of its own and no value that was not sent. `from_json` takes "
            "duplicate keys, trailing data, rounded numbers and half surrogates without a word; the guard "
            "(`is_valid_utf8`, and `try_parse_json` on the text as a member of an object and of an array) "
            "still accepts numbers that are rounded, texts for numbers, and values that are no objects. "
            f"`{JACKSON}` is Jackson's streaming parser with duplicate detection and limits, and our "
            "conversions of numbers and times; it has no arrays, no maps, and names no field of a fault."
        ),
    ]
    return lines


if __name__ == "__main__":
    main()
