"""Declarations keep the hashes that commits already hold.

A commit of a silver table records the version of its rules, a commit of a gold table a mark per declared
attribute. A hash that changes without a change of the declaration would refuse a start, or judge every row
anew. The literals below were computed by the code before the declarations were split into several modules.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from common import declare
from common.declare.declared import ordered
from common.declare.table_options import Paced
from gold.table.declaration_marks import meaning
from orchestration.access.declaration.load_file import load_pipeline
from silver.judge.reasons_and_verdict import rules_version

EXAMPLES = Path(__file__).parents[3] / "examples"

RULE_VERSIONS = {
    ("earthquakes", "silver.quakes"): "68e141c92db1",
    ("orders_cdc", "silver.customers"): "eceb9cd7cffe",
    ("orders_cdc", "silver.orders"): "62feccae352f",
}

MARKS = {
    ("earthquakes", "gold.quakes_by_network"): "by=fcf3f4cc measures=5ba84698 reads=17fa0cc8",
    ("earthquakes", "gold.quakes_latest"): "key=e6b1d887 newest_by=436a6fc7 reads=17fa0cc8",
    (
        "earthquakes",
        "gold.quakes_by_hour",
    ): "by=b9a635aa measures=32e674ed mode=2dd68d27 reads=17fa0cc8 window=638967a2",
    (
        "earthquakes",
        "gold.quake_magnitudes",
    ): "columns=c79ec012 delete_when=2069a873 key=e6b1d887 reads=17fa0cc8 valid_by=d3e2cef3",
    ("earthquakes", "gold.magnitude_changes"): "by=0fbd1c98 measures=e971c589 mode=2dd68d27 reads=17fa0cc8",
    ("earthquakes", "gold.quakes_first"): "columns=efcd2135 key=e6b1d887 newest_by=362faaef reads=17fa0cc8",
    ("earthquakes", "gold.detection_latency"): "by=b9a635aa measures=0b9e6f12 mode=2dd68d27 reads=cc0c6ba4",
    (
        "earthquakes",
        "gold.quakes_retracted",
    ): "by=7a60756b measures=65360158 mode=2dd68d27 reads=17fa0cc8 where=2069a873",
    (
        "orders_cdc",
        "gold.customers",
    ): "columns=ef1b9d44 deletes 'd'= ignores 'm'= key=5d7c415d operation=063bd517 reads=00bd40ad sequence_by=f1111dd8 truncates=0655e07f upserts 'c'= upserts 'r'= upserts 'u'=",  # noqa: E501  # one line, one declaration
    (
        "orders_cdc",
        "gold.orders",
    ): "columns=79f8ceba deletes 'd'= ignores 'm'= key=fe01ea8d operation=063bd517 reads=4fc95b48 sequence_by=f1111dd8 truncates=0655e07f upserts 'c'= upserts 'r'= upserts 'u'=",  # noqa: E501  # one line, one declaration
    (
        "orders_cdc",
        "gold.orders_with_customers",
    ): "columns=6808e81e joins=6cd38e0b on=07390bb5 reads=d0d3f0a6",
    ("orders_cdc", "gold.changes_by_operation"): "by=ac4a441c measures=32309d0a reads=4fc95b48",
}

POSITIONS = {
    "Aggregate": "name reads by measures where window mode watermark reading storage",
    "Avro": "schema framing max_bytes",
    "Bytes": "",
    "ChangeFeed": "name reads key sequence_by operation upserts deletes ignores columns reading storage "
    "unchanged where truncates",
    "ConsoleSink": "rows",
    "Csv": "schema separator null_text required timestamps max_bytes",
    "Custom": "name reads write tables reading storage also_reads",
    "Debezium": "row required timestamps max_depth max_bytes framing decimals",
    "Expect": "name arguments severity",
    "ForeachSink": "writer",
    "History": "name reads key valid_by columns delete_when reading storage unchanged where "
    "sequence_by untracked ignore_nulls surrogate_key snapshots truncates",
    "Join": "name reads joins on columns how mode within reading storage where",
    "Json": "schema strict required timestamps max_depth max_bytes framing decimals",
    "KafkaSink": "topic key value kafka headers partition register_schemas",
    "Lookup": "name table on",
    "Pipeline": "name bronze silver gold quality kafka publish on_batch on_failure listeners",
    "Protobuf": "schema message framing timestamps max_bytes",
    "Publish": "name reads to columns where deletes reading",
    "Quality": "table expectations gate",
    "Reading": "changes starting_version starting_timestamp event_time_order",
    "Rule": "name condition on_fail",
    "Session": "on gap",
    "Silver": "name reads value columns key event_time watermark rules lookups max_future dedupe keep late unknown_fields tombstones max_future_after where storage each",  # noqa: E501  # one line, one declaration
    "Storage": "cluster_by partition_by change_feed deletion_vectors newer_types location foreign",
    "Text": "max_bytes",
    "Topic": "name topics pattern assign starting_offsets starting_timestamp max_offsets_per_trigger min_partitions fail_on_data_loss may_have_gaps kafka sample keep trigger storage receipts",  # noqa: E501  # one line, one declaration
    "Upsert": "name reads key newest_by columns delete_when reading storage unchanged where ignore_nulls",
    "Window": "on size slide offset",
    "Within": "on joins_on after before watermark joins_watermark watermark_policy",
}
"""Order in which a declaration takes its values by position."""


@pytest.mark.parametrize(("example", "table"), RULE_VERSIONS)
def test_the_rule_version_of_an_example_is_kept(example: str, table: str) -> None:
    pipeline = load_pipeline(EXAMPLES / example / "pipeline.py")
    silver = next(each for each in pipeline.silver if each.table == table)
    assert rules_version(silver) == RULE_VERSIONS[example, table]


@pytest.mark.parametrize(("example", "table"), MARKS)
def test_the_declaration_marks_of_an_example_are_kept(example: str, table: str) -> None:
    pipeline = load_pipeline(EXAMPLES / example / "pipeline.py")
    gold = next(each for each in pipeline.gold if each.table == table)
    marks = sorted(meaning(gold).items())  # the last part of each is the mark of releases to 0.2.0
    assert " ".join(f"{name}={mark.split('/')[-1]}" for name, mark in marks) == MARKS[example, table]


def test_every_table_of_the_examples_is_compared() -> None:
    for example in ("earthquakes", "orders_cdc"):
        pipeline = load_pipeline(EXAMPLES / example / "pipeline.py")
        assert {(example, silver.table) for silver in pipeline.silver} <= RULE_VERSIONS.keys()
        assert {(example, gold.table) for gold in pipeline.gold} <= MARKS.keys()


@pytest.mark.parametrize("kind", POSITIONS)
def test_a_declaration_takes_the_same_values_by_position(kind: str) -> None:
    cls = getattr(declare, kind)
    shared = [each.name for each in dataclasses.fields(Paced)] if issubclass(cls, Paced) else []
    assert [each.name for each in ordered(cls)] == [*POSITIONS[kind].split(), *shared]


def test_the_last_values_of_a_gold_table_are_taken_by_position() -> None:
    reading, storage = declare.Reading(changes="appends"), declare.Storage(change_feed=True)
    upsert = declare.Upsert("a", "silver.a", ["k"], ["v"], None, None, reading, storage)  # type: ignore[call-arg]
    assert (upsert.delete_when, upsert.reading, upsert.storage) == (None, reading, storage)
    assert upsert == declare.Upsert(
        "a", reads="silver.a", key=["k"], newest_by=["v"], reading=reading, storage=storage
    )
