"""A publication beside tables: its lease, and the options of the broker that it sends to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from common.declare import Avro, ConsoleSink, Json, KafkaSink, Pipeline, Publish, Silver, Topic
from orchestration.access.kafka.client import sink_options
from orchestration.author.check.pipeline import check
from orchestration.run.job import written_tables
from tests.conftest import make_settings

SILVER = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp, amount int"),
    columns=["id", "at", "amount"],
    key=["id"],
    event_time="at",
    watermark="1 day",
)
SENT = Publish("x", reads="silver.orders", to=ConsoleSink())
PIPELINE = Pipeline("p", bronze=[Topic("orders")], silver=[SILVER], publish=[SENT])


def test_a_publication_is_no_table_but_has_a_lease() -> None:
    assert "publish.x" not in [table.table for table in PIPELINE.tables]
    assert written_tables(PIPELINE, ["gold"]) == ("publish.x",)
    assert written_tables(PIPELINE, ["silver"])[0] == "silver.orders"


def test_a_schema_that_is_not_there_is_told_with_the_folder_in_which_it_would_be() -> None:
    sent = replace(SENT, to=KafkaSink("t", value=Avro("order.avsc")))
    (problem,) = check(replace(PIPELINE, publish=[sent]))
    assert (problem.place, problem.message[:32]) == ("publish.x, value", "there is no file 'order.avsc' in")


def test_a_sinks_own_broker_gets_no_login_of_anothers(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "b:1", "kafka.options.sasl.mechanism=PLAIN")
    declared = replace(PIPELINE, kafka={"client.id": "me"})
    ours = sink_options(settings, declared, KafkaSink("t", kafka={"acks": "1"}), "b:1")
    own = {"client.id": "me", "sasl.mechanism": "PLAIN", "acks": "1", "bootstrap.servers": "b:1"}
    assert ours == own
    theirs = sink_options(settings, declared, KafkaSink("t", kafka={"bootstrap.servers": "c:2"}), "b:1")
    assert theirs == {"bootstrap.servers": "c:2"}
