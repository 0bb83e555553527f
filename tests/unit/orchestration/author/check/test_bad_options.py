"""Sources, sinks and options that cannot be right: each is a mistake with its place and what to write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.declare import DeltaTable, Pipeline, Topic
from common.errors import Problem
from orchestration.access.declaration.load_file import load_draft
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import draft_problems
from orchestration.author.check.settings import doubtful_settings

SCHEMA = "id string, at timestamp, amount int"
PIPELINE = """from medallion import *
def write(rows, batch_id, token): pass
source = {source}
rest = dict(key=["id"], event_time="at", watermark="1 day")
table = Silver("orders", reads=source.table, value={value}, columns={columns}, **rest, {options})
out = [{publish}]
pipeline = Pipeline("p", bronze=[source], silver=[table], publish=out, {more})
"""
DEFAULTS = {
    "source": 'Topic("orders")',
    "value": f'Json("{SCHEMA}")',
    "columns": '["id", "at", "amount"]',
    "options": "",
    "publish": "",
    "more": "",
}
LINES = {"source": 3, "value": 5, "options": 5, "publish": 6, "more": 7}
"""The line of the file on which a part of it begins."""

TEXT = {"value": "Text()", "columns": '{"id": "value", "at": "_kafka.timestamp"}'}
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}'


def checked(folder: Path, parts: Mapping[str, str], *settings: str) -> tuple[Problem, ...]:
    """What ``medallion check`` finds in a file."""
    file = folder / "pipeline.py"
    given = {**DEFAULTS, **parts}
    if given["source"].startswith(("DeltaTable", "Stream")) and "value" not in parts:
        given["value"] = f'Columns("{SCHEMA}")'
    file.write_text(PIPELINE.format(**given), encoding="utf-8")
    found = load_settings(overrides=settings)
    draft = load_draft(file)
    return (*draft_problems(draft, found), *doubtful_settings(draft.pipeline, found))


def source(text: str, **more: str) -> dict[str, str]:
    return {"source": text, **more}


def sent(sink: str, more: str = "", **parts: str) -> dict[str, str]:
    return {"publish": f'Publish("x", reads="silver.orders", to={sink}, {more})', **parts}


OF_SOURCES: list[tuple[dict[str, str], str, str]] = [
    (source('Topic("orders", topics=[""])'), "bronze.orders", "topics: '' is empty"),
    (source('Topic("orders", topics=["a b"])'), "bronze.orders", "topics: 'a b' is no name of a topic"),
    (source('Topic("orders", topics=["web.*"])'), "bronze.orders", "pattern=… reads topics by a regular"),
    (source('Topic("orders", topics=["a", "a"])'), "bronze.orders", "topics: 'a' is there twice"),
    (source('Topic("orders", assign={})'), "bronze.orders", "assign is empty; name the partitions"),
    (source('Topic("orders", assign={"a": []})'), "bronze.orders", "assign: 'a' has the partitions []"),
    (source('Topic("orders", assign={"a": [0, 0]})'), "bronze.orders", "write each number from 0 on once"),
    (source('Topic("orders", assign={"a": [-1]})'), "bronze.orders", "assign: 'a' has the partitions [-1]"),
    (source('Topic("orders", pattern="web(")'), "bronze.orders", "pattern 'web(' is no regular expression"),
    (source('Topic("orders", pattern=" ")'), "bronze.orders", "pattern ' ' is empty"),
    (source('Topic("orders", starting_offsets="lates")'), "bronze.orders", "did you mean 'latest'?"),
    (
        source('Topic("orders", starting_offsets={"ordrs": {0: 1}})'),
        "bronze.orders",
        "starting_offsets: 'ordrs' is not read; did you mean 'orders'?",
    ),
    (
        source('Topic("orders", starting_offsets={"orders": {0: -3}})'),
        "bronze.orders",
        "lowest position is -2",
    ),
    (source('Topic("orders", starting_timestamp=-1)'), "bronze.orders", "starting_timestamp is -1"),
    (source('Topic("orders", trigger="5 secnds")'), "bronze.orders", "did you mean '5 seconds'?"),
    (source('Topic("orders", keep="90 dys")'), "bronze.orders", "did you mean '90 days'?"),
    (
        source('Topic("orders", kafka={"isolation.level": "read_uncommited"})'),
        "bronze.orders",
        "kafka option 'isolation.level' is 'read_uncommited'; did you mean 'read_uncommitted'?",
    ),
    (source('Files("orders", "in", "csv", header="skp")'), "bronze.orders", "did you mean 'skip'?"),
    (source('Files("orders", "in", "jsnl")'), "bronze.orders", "did you mean 'jsonl'?"),
    (source('Files("orders", "s3://b/x", "jsonl")'), "bronze.orders", "did you mean 's3a://b/x'?"),
    (source('Files("orders", "zip://b/x", "jsonl")'), "bronze.orders", "spark.conf.spark.hadoop.fs.zip.impl"),
    (
        source('DeltaTable("orders", "t", starting_version="lates")'),
        "bronze.orders",
        "did you mean 'latest'?",
    ),
    (source('DeltaTable("orders", "t", changes="apends")'), "bronze.orders", "did you mean 'appends'?"),
    (
        source('DeltaTable("orders", "t", max_file_per_trigger=1)'),
        "bronze.orders",
        "'max_files_per_trigger'?",
    ),
    (
        source('DeltaTable("orders", "t/*")'),
        "bronze.orders",
        "path 't/*' has *; name the folder of one Delta",
    ),
    (source('DeltaTable("orders", "delta.`/t`")'), "bronze.orders", "has `; name the folder of one Delta"),
    (source('DeltaTable("orders", "s3n://b/x")'), "bronze.orders", "did you mean 's3a://b/x'?"),
    (source('DeltaTable("orders", "t", trigger="follow")'), "bronze.orders", "has no table to follow"),
    (source('Stream("orders", "rate-mirco-batch")'), "bronze.orders", "did you mean 'rate-micro-batch'?"),
    (source('Stream("orders", "kafak")'), "bronze.orders", "did you mean 'kafka'?"),
    (
        source('Stream("orders", "cloudFiles")'),
        "bronze.orders",
        "is a source of Databricks; Files reads files",
    ),
    (
        source('Stream("orders", "rate", {"rowsPerSecond": "0"})'),
        "bronze.orders",
        "option 'rowsPerSecond' is '0'; it must be a whole number of at least 1",
    ),
    (
        source('Stream("orders", "rate", {"rowsPerSecond": "many"})'),
        "bronze.orders",
        "is 'many'; it must be a",
    ),
    (source('Stream("orders", "rate", {"numPartitions": "-1"})'), "bronze.orders", "'numPartitions' is '-1'"),
    (source('Stream("orders", "rate", {"rampUpTime": "5 foo"})'), "bronze.orders", "write a time like '30s'"),
    (
        source('Stream("orders", "rate", {"numPartitions": "1", "NUMPARTITIONS": "2"})'),
        "bronze.orders",
        "options 'numPartitions' and 'NUMPARTITIONS' are one option; keep one",
    ),
    (
        source('Stream("orders", "rate-micro-batch", {"rowsPerBatch": "5", "startTimestamp": "-1"})'),
        "bronze.orders",
        "option 'startTimestamp' is '-1'; it must be a whole number of at least 0",
    ),
]
"""The part of a file that is wrong, the place of the mistake, and words of it."""

OF_VALUES_AND_TABLES: list[tuple[dict[str, str], str, str]] = [
    ({"value": f'Json("{SCHEMA}", framing="registri")'}, "Json", "did you mean 'registry'?"),
    ({"value": f'Json("{SCHEMA}", timestamps="ofset")'}, "Json", "did you mean 'offset'?"),
    ({"value": f'Json("{SCHEMA}", required=["idd"])'}, "silver.orders, value", "did you mean 'id'?"),
    ({"value": f'Csv("{SCHEMA}", seperator=";")'}, "Csv", "did you mean 'separator'?"),
    ({"value": 'Protobuf("order.desc", mesage="shop.Order")'}, "Protobuf", "did you mean 'message'?"),
    (
        {"source": 'Files("orders", "in", "csv")'},
        "silver.orders, value",
        "a record of bronze.orders is a line of a file of format 'csv', which Json does not read; write Csv",
    ),
    (
        {"source": 'Files("orders", "in", "parquet")', "value": f'Csv("{SCHEMA}")'},
        "silver.orders, value",
        "is JSON text of a file of format 'parquet', which Csv does not read; write Json(…)",
    ),
    (
        {"source": 'Files("orders", "in", "avro")', "value": f"Avro({AVRO!r})"},
        "silver.orders, value",
        "which Avro does not read; write Json(…)",
    ),
    (
        {"source": 'Files("orders", "in", "jsonl")', "value": f'Json("{SCHEMA}", framing="registry")'},
        "silver.orders, value",
        'framing="registry" is for messages of Kafka; records of bronze.orders have no frame',
    ),
    ({"options": 'trigger="folow"'}, "silver.orders", "did you mean 'follow'?"),
    ({"options": 'trigger="asp"'}, "silver.orders", "did you mean 'asap'?"),
    ({"options": 'trigger="availableNow"'}, "silver.orders", "medallion run --available-now"),
    ({"options": 'trigger="once"'}, "silver.orders", "medallion backfill"),
    ({"options": 'trigger="realTime"'}, "silver.orders", "trigger 'asap' starts"),
    ({"options": "max_files_per_trigger=0"}, "silver.orders", "must be at least 1"),
    ({"options": 'max_bytes_per_trigger="lots"'}, "silver.orders", "write it like '512m'"),
    ({"options": 'storage=Storage(cluster_by=["amont"])'}, "silver.orders", "did you mean 'amount'?"),
    ({"options": 'storage=Storage(partition_by=["amount", "amount"])'}, "Storage", "'amount' is there twice"),
    ({"options": 'storage=Storage(clusterby=["amount"])'}, "Storage", "did you mean 'cluster_by'?"),
    ({"options": 'unknown_fields="rescu"'}, "silver.orders", "did you mean 'rescue'?"),
]

OF_SINKS: list[tuple[dict[str, str], str, str]] = [
    (sent('KafkaSink("")'), "KafkaSink", "topic '' is empty"),
    (sent('KafkaSink("a/b")'), "KafkaSink", "topic 'a/b' is no name of a topic"),
    (sent('KafkaSink("t", kafka={"transactional.id": "x"})'), "KafkaSink", "a BatchSink with a producer"),
    (
        sent('KafkaSink("t", kafka={"value.serializer": "x"})'),
        "KafkaSink",
        "'value.serializer' cannot be set",
    ),
    (sent('KafkaSink("t", kafka={"kafka.acks": "1"})'), "KafkaSink", "write it without 'kafka.': 'acks'"),
    (sent('KafkaSink("t", kafka={"bootstrap.server": "b:1"})'), "KafkaSink", "'bootstrap.servers'?"),
    (sent('KafkaSink("t", headers={"n": "amont"})'), "publish.x, header 'n'", "did you mean 'amount'?"),
    (sent('KafkaSink("t", header={"n": "amount"})'), "KafkaSink", "did you mean 'headers'?"),
    (sent('FileSink("out", "parqet")'), "FileSink", "did you mean 'parquet'?"),
    (sent('FileSink("s3://b/out")'), "publish.x", "did you mean 's3a://b/out'?"),
    (
        sent('FileSink("out", "csv")', value='Json("id string, at timestamp, amount struct<a: int>")'),
        "publish.x",
        "column 'amount' is of type struct, which no field of CSV has: send to_json(amount)",
    ),
    (
        sent('FileSink("in/out")', **source('Files("orders", "in", "jsonl")')),
        "publish.x",
        "writes to in/out, and bronze.orders reads all files below in",
    ),
    (sent("BatchSink(lambda rows: None)"), "BatchSink", "write is called as (rows, batch_id, token), and"),
    (sent("BatchSink(write(1, 2, 3))"), "BatchSink", "write: expected a function (got None)"),
    (sent("ForeachSink(lambda: None)"), "ForeachSink", "writer is called as (row), and <lambda>()"),
    (sent("ForeachSink(5)"), "ForeachSink", "writer needs a method process(row)"),
    (sent('FileSink(" ")'), "FileSink", "path is empty; name a folder"),
    (sent("MemorySink(0)"), "MemorySink", "must be at least 1"),
    (sent("ConsoleSink(0)"), "ConsoleSink", "rows is 0; it must be at least 1"),
    (sent("KafkSink('t')"), "pipeline file", "did you mean 'KafkaSink'?"),
    (sent("ConsoleSink()", 'where="amount"'), "publish.x, where", "is of type int, not boolean"),
    (sent("ConsoleSink()", 'trigger="1 minutte"'), "publish.x", "did you mean '1 minute'?"),
    (sent("ConsoleSink()", 'reading=Reading(starting_version="lates")'), "Reading", "did you mean 'latest'?"),
    (sent("ConsoleSink()", 'reading=Reading(changes="fed")'), "Reading", "did you mean 'feed'?"),
    ({"more": "on_batch=lambda: None"}, "Pipeline 'p'", "on_batch is called as (record), and <lambda>()"),
    ({"more": "on_failure='mail'"}, "Pipeline 'p'", "on_failure: expected a function"),
    ({"more": "on_bach=print"}, "Pipeline 'p'", "did you mean 'on_batch'?"),
    ({"more": "listeners=[object()]"}, "Pipeline 'p'", "has no onQueryStarted"),
]

WRONG = (*OF_SOURCES, *OF_VALUES_AND_TABLES, *OF_SINKS)


@pytest.mark.parametrize(("parts", "place", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_a_bad_option_is_a_mistake_with_its_place(
    tmp_path: Path, parts: dict[str, str], place: str, text: str
) -> None:
    """The first part of the case is on the line that the mistake names."""
    found = checked(tmp_path, parts)
    (mistake, *_) = [one for one in found if one.place == place and text in one.message] or [None]
    assert mistake is not None, [f"{one.place}: {one.message}" for one in found]
    line = LINES["value" if place == "silver.orders, value" else next(iter(parts))]
    assert mistake.source == f"{tmp_path}/pipeline.py:{line}"


FINE = [
    source(
        'Topic("orders", topics=["Web-1", "web_2.x"], starting_offsets={"gone": {0: 5}, "Web-1": {0: -2}})'
    ),
    source('Topic("orders", pattern=r"web-\\\\p{Alpha}+")'),
    source('Topic("orders", kafka={"isolation.level": "read_uncommitted"})'),
    source('Files("orders", "abfss://c@a/x", "jsonl")'),
    source('Files("orders", "in", "parquet")', **TEXT),
    source('Files("orders", "in", "csv")', **TEXT),
    source('DeltaTable("orders", "hdfs://n/x", starting_version="latest", trigger="asap")'),
    source(
        'Stream("orders", "rate", {"rowsPerSecond": "env:ROWS", "rampUpTime": "5m", "NUMPARTITIONS": "1"})'
    ),
    source('Stream("orders", "mqtt", {"rowsPerSecond": "0"})'),
    sent("BatchSink(lambda rows, number, *, token=None: None)") | sent("BatchSink(lambda *all: None)"),
    sent("ForeachSink(print)"),
    sent('FileSink("out", "csv")', 'columns=["id"], where="amount > 0"'),
    sent('FileSink("in/out")', **source('Files("orders", "in", "jsonl", only="*.jsonl")')),
    {"more": "on_batch=print, on_failure=lambda record, beside=1: None"},
]


@pytest.mark.parametrize("parts", FINE)
def test_what_may_be_right_is_no_mistake(tmp_path: Path, parts: dict[str, str]) -> None:
    assert checked(tmp_path, parts) == ()


def test_a_scheme_whose_file_system_is_set_is_taken(tmp_path: Path) -> None:
    """As on a cluster whose vendor has one for ``s3://``."""
    parts = source('DeltaTable("orders", "s3://b/x")')
    assert len(checked(tmp_path, parts)) == 1
    assert checked(tmp_path, parts, "spark.conf.spark.hadoop.fs.s3.impl=com.vendor.FileSystem") == ()


def test_a_place_where_no_schemas_can_be_is_doubtful(tmp_path: Path) -> None:
    for place, text in (
        ("htp://registry", "did you mean 'http://registry'?"),
        (f"{tmp_path}/gone", "there is no such folder"),
    ):
        (found,) = checked(tmp_path, {}, f"silver.schema_registry={place}")
        assert text in found.message
        assert found.place == "settings"
    for place in ("https://registry", str(tmp_path)):
        assert checked(tmp_path, {}, f"silver.schema_registry={place}") == ()


def test_a_location_as_spark_prints_it_is_a_path() -> None:
    assert DeltaTable("orders", "file:/lake/orders").folder == "/lake/orders"
    assert DeltaTable("orders", "s3a://lake/orders").folder == "s3a://lake/orders"


def test_what_is_not_used_or_may_be_a_name_is_noted() -> None:
    both = Topic("orders", starting_offsets="latest", starting_timestamp=5)
    assert any("starting_offsets is not used" in note for note in notes(Pipeline("p", bronze=[both])))
    named = DeltaTable("orders", "main.sales.orders")
    assert any("write table='main.sales.orders'" in note for note in notes(Pipeline("p", bronze=[named])))
