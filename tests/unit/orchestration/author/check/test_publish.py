"""What is wrong with publications, with a function's tables and with how a table is laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from common.declare import (
    Aggregate,
    Avro,
    ConsoleSink,
    Custom,
    Json,
    KafkaSink,
    Pipeline,
    Publish,
    Reading,
    Silver,
    Storage,
    Topic,
    Upsert,
)
from common.errors import PipelineError
from orchestration.access.kafka.client import sink_options
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import check
from orchestration.run.job import written_tables
from tests.conftest import make_settings

SILVER = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp, amount int"),
    columns={"id": "id", "at": "at", "amount": "amount"},
    key=["id"],
    event_time="at",
    watermark="1 day",
)
LATEST = Upsert("latest", reads="silver.orders", key=["id"], newest_by=["at"])
FEED = Storage(change_feed=True)
CONSOLE = ConsoleSink()


def nothing(rows: Any, gold: Any) -> None:
    """A function that writes nothing."""


def pipeline(*gold: Any, publish: tuple[Publish, ...] = ()) -> Pipeline:
    return Pipeline("p", bronze=[Topic("orders")], silver=[SILVER], gold=gold, publish=publish)


def custom(**changed: Any) -> Custom:
    given: dict[str, Any] = {"reads": "silver.orders", "write": nothing, "tables": {"own": "id string"}}
    return Custom("own", **given | changed)


def shaped(**changed: Any) -> Pipeline:
    given: dict[str, Any] = {"reads": "silver.orders", "to": CONSOLE}
    return pipeline(publish=(Publish("x", **given | changed),))


AVRO = Avro(
    '{"type": "record", "name": "Order", "fields": ['
    '{"name": "id", "type": "string"}, {"name": "amount", "type": ["null", "int"]}]}'
)
KEY = Avro('{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]}')

FINE: dict[str, Callable[[], Pipeline]] = {
    "silver": shaped,
    "bronze": lambda: shaped(reads="bronze.orders", columns=["key", "value"], where="partition = 0"),
    "quarantine": lambda: shaped(
        reads="silver.orders__quarantine", columns={"why": "concat_ws(',', reasons)", "value": "value"}
    ),
    "late rows": lambda: shaped(reads="silver.orders__late", columns=["id", "_watermark"]),
    "a gold table with a feed": lambda: pipeline(
        replace(LATEST, storage=FEED), publish=(Publish("x", reads="gold.latest", to=CONSOLE),)
    ),
    "key of a column that is sent": lambda: shaped(
        columns={"n": "amount + 1"}, where="amount > 0", to=KafkaSink("t", key="n")
    ),
    "a value in Avro": lambda: shaped(columns=["id", "amount"], to=KafkaSink("t", value=AVRO)),
    "a column that only the key needs": lambda: shaped(to=KafkaSink("t", key="at", value=AVRO)),
    "deletions by their key": lambda: shaped(
        columns=["id", "amount"], deletes=True, to=KafkaSink("t", key=KEY, value=AVRO)
    ),
    "a function's second table": lambda: pipeline(
        custom(tables={"own": "id string", "other": "n int"}, storage=FEED),
        publish=(Publish("x", reads="gold.other", to=CONSOLE, where="n > 0"),),
    ),
    "a function over two tables": lambda: pipeline(
        replace(LATEST, storage=FEED), custom(also_reads=["gold.latest"])
    ),
    "clustered": lambda: pipeline(replace(LATEST, storage=Storage(cluster_by=["id"]))),
}
WRONG: dict[str, tuple[Callable[[], Pipeline], str]] = {
    "a gold table without a feed": (
        lambda: pipeline(LATEST, publish=(Publish("x", reads="gold.latest", to=CONSOLE),)),
        (
            "publish.x: reads gold.latest, whose rows change, and which keeps no change data feed: give it "
            "storage=Storage(change_feed=True)"
        ),
    ),
    "appends of a table that changes": (
        lambda: pipeline(
            replace(LATEST, storage=FEED),
            publish=(Publish("x", reads="gold.latest", to=CONSOLE, reading=Reading(changes="appends")),),
        ),
        "publish.x: reads appends of gold.latest, whose rows are replaced",
    ),
    "no table": (
        lambda: shaped(reads="bronze.order"),
        "publish.x: reads 'bronze.order', which is no table of the pipeline; did you mean 'bronze.orders'?",
    ),
    "where of bronze": (
        lambda: shaped(reads="bronze.orders", where="amount > 1"),
        "publish.x, where: bronze.orders has no 'amount'",
    ),
    "column of quarantine": (
        lambda: shaped(reads="silver.orders__quarantine", columns=["reason"]),
        "publish.x, column 'reason': silver.orders__quarantine has no 'reason'; did you mean 'reasons'?",
    ),
    "a name twice": (
        lambda: pipeline(publish=(Publish("x", reads="silver.orders", to=CONSOLE),) * 2),
        "publish.x: is declared twice",
    ),
    "where": (lambda: shaped(where="amont > 1"), "publish.x, where: silver.orders has no 'amont'"),
    "column": (lambda: shaped(columns=["amont"]), "publish.x, column 'amont': silver.orders has no 'amont'"),
    "key that is not sent": (
        lambda: shaped(columns=["id"], to=KafkaSink("t", key="amount")),
        "publish.x, key: the published row has no 'amount'",
    ),
    "a field without a column": (
        lambda: shaped(columns={"id": "id", "amout": "amount"}, to=KafkaSink("t", value=AVRO)),
        "publish.x: value: the schema's field 'amount' has no column: add one in columns; did you mean",
    ),
    "a column without a field": (
        lambda: shaped(to=KafkaSink("t", value=AVRO)),
        "publish.x: value: column 'at' is no field of the schema and would not be sent: leave it out",
    ),
    "deletions that nothing tells apart": (
        lambda: shaped(columns=["id", "amount"], deletes=True, to=KafkaSink("t", value=AVRO)),
        "publish.x: deletes=True sends a deleted row as a message without a value, whose key tells the row",
    ),
    "a schema that is not there": (
        lambda: shaped(to=KafkaSink("t", value=Avro("order.avsc"))),
        "publish.x, value: there is no file 'order.avsc' in ",
    ),
    "columns of a function's table": (
        lambda: pipeline(custom(tables={"own": "id strng"})),
        "gold.own, tables 'own': ",
    ),
    "a function's further table that there is not": (
        lambda: pipeline(custom(also_reads=["silver.order"])),
        "gold.own: also_reads 'silver.order', which is no silver or gold table of the pipeline; did you mean",
    ),
    "a function's further table without a feed": (
        lambda: pipeline(LATEST, custom(also_reads=["gold.latest"])),
        "gold.own: also_reads 'gold.latest', whose changes it needs: declare gold.latest with storage=",
    ),
    "a function's table twice": (
        lambda: pipeline(LATEST, custom(tables={"own": "id string", "latest": "id string"})),
        "gold.latest: is declared twice",
    ),
    "laid out by no column": (
        lambda: pipeline(replace(LATEST, storage=Storage(cluster_by=["idd"]))),
        "gold.latest: storage, cluster_by 'idd' is no column of gold.latest; did you mean 'id'?",
    ),
    "a function's other table lacks the column": (
        lambda: pipeline(
            custom(tables={"own": "id string", "other": "n int"}, storage=Storage(partition_by=["id"]))
        ),
        "gold.other: storage, partition_by 'id' is no column of gold.other",
    ),
}


@pytest.mark.parametrize("case", FINE)
def test_what_is_right_passes(case: str) -> None:
    assert check(FINE[case]()) == ()


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_its_place(case: str) -> None:
    build, wanted = WRONG[case]
    told = [f"{problem.place}: {problem.message}" for problem in check(build())]
    assert [text for text in told if text.startswith(wanted)], told


def test_a_functions_query_has_the_name_of_one_of_its_tables() -> None:
    with pytest.raises(PipelineError, match=r"gold\.own: tables lacks 'own'"):
        custom(tables={"other": "n int"})


def test_a_publication_is_no_table_but_has_a_lease() -> None:
    declared = shaped()
    assert "publish.x" not in [table.table for table in declared.tables]
    assert written_tables(declared, ["gold"]) == ("publish.x",)
    assert written_tables(declared, ["silver"])[0] == "silver.orders"


def test_a_whole_table_written_anew_is_noted() -> None:
    counts = Aggregate("counts", reads="silver.orders", by=["id"], measures={"n": "count(*)"}, storage=FEED)
    declared = pipeline(counts, publish=(Publish("x", reads="gold.counts", to=CONSOLE),))
    assert check(declared) == ()
    assert notes(declared)[-1].startswith("publish.x sends every row of gold.counts after each")


def test_what_stays_with_the_consumer_of_a_condition_is_noted() -> None:
    """Of a table whose rows change; with ``deletes``, without a condition, and of events nothing stays."""
    latest, sent = (
        replace(LATEST, storage=FEED),
        Publish("x", reads="gold.latest", to=CONSOLE, where="amount > 1"),
    )
    others = [replace(sent, deletes=True), replace(sent, where=None), replace(sent, reads="silver.orders")]
    named = [replace(one, name=f"other{place}") for place, one in enumerate(others)]
    (note,) = [text for text in notes(pipeline(latest, publish=(sent, *named))) if "where" in text]
    assert note.startswith("publish.x: a row of gold.latest that is deleted, or no longer meets where, stays")


def test_a_sinks_own_broker_gets_no_login_of_anothers(tmp_path: Any) -> None:
    settings = make_settings(tmp_path, "b:1", "kafka.options.sasl.mechanism=PLAIN")
    declared = replace(shaped(), kafka={"client.id": "me"})
    ours = sink_options(settings, declared, KafkaSink("t", kafka={"acks": "1"}), "b:1")
    assert ours == {
        "client.id": "me",
        "sasl.mechanism": "PLAIN",
        "acks": "1",
        "bootstrap.servers": "b:1",
    }
    theirs = sink_options(settings, declared, KafkaSink("t", kafka={"bootstrap.servers": "c:2"}), "b:1")
    assert theirs == {"bootstrap.servers": "c:2"}
