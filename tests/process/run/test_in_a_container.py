"""As in a container: a user id that /etc/passwd does not know, no home folder, and a /tmp with noexec."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from common.config.paths import user_cache
from tests.support.processes import medallion
from tests.support.unknown_user import unknown_user_without_exec

PIPELINE = """
from medallion import Json, Pipeline, Silver, Topic, Upsert

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("{topic}")],
    silver=[
        Silver(
            "orders", reads="bronze.{topic}", value=Json("id int, at timestamp"), columns=["id", "at"],
            key=["id"], event_time="at", watermark="1 day",
        )
    ],
    gold=[Upsert("latest", reads="silver.orders", key=["id"], newest_by=["at"])],
)
"""


@pytest.mark.long
def test_rows_of_a_user_without_a_name_and_a_home(broker: str, topic: str, tmp_path: Path) -> None:
    """Hadoop asked for the name of the user, and Spark did not start; zstd unpacks a library into /tmp."""
    within = unknown_user_without_exec(Path("/tmp"), tmp_path)  # noqa: S108  # that of the container
    (tmp_path / "shop.py").write_text(PIPELINE.format(topic=topic))
    producer = Producer({"bootstrap.servers": broker, "compression.type": "zstd"})
    for number in range(200):
        producer.produce(topic, b'{"id": %d, "at": "2026-01-05T12:00:00Z"}' % number)
    assert producer.flush(60) == 0
    env = {"XDG_CACHE_HOME": str(user_cache().parent)}
    with medallion(tmp_path, tmp_path / "shop.py", f"kafka.bootstrap_servers={broker}") as commands:
        checked = commands.run("check", env=env, within=within)
        assert checked.code() == 0, checked.stderr
        done = commands.run("backfill", env=env, within=within)
        assert done.code() == 0, done.stderr
        found = DeltaTable(commands.layout.table_path("gold.latest")).to_pyarrow_table(columns=["id"])
        assert sorted(found["id"].to_pylist()) == list(range(200))
        examined = commands.run("doctor", "--json", env=env, within=within)
        failed = [one for one in json.loads(examined.stdout)["findings"] if one["state"] == "fail"]
        assert failed == []
        counted = commands.run("status", "--json", env=env, within=within)
        assert counted.code() == 0, counted.stderr
        assert [one["query"]["state"] for one in json.loads(counted.stdout)["tables"]] == ["stopped"] * 3
        # Nothing says where jars are.
        without = commands.run("doctor", "--json", env={"XDG_CACHE_HOME": ""}, within=within)
        assert without.code() == 1
        texts = {one["value"] for one in json.loads(without.stdout)["findings"] if one["state"] == "fail"}
        assert {text.partition(": ")[2].partition(",")[0] for text in texts} == {
            "HOME and XDG_CACHE_HOME are not set"
        }
