"""A compacted topic: records without a value delete what their key names, in silver's account and in gold."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.declare import Json, Message, Pipeline, Rule, Silver, Topic, Upsert
from tests.conftest import make_settings
from tests.support.engine import Engine


def declared(topic: str) -> Pipeline:
    return Pipeline(
        name="shop",
        bronze=[Topic("users", topics=[topic])],
        silver=[
            Silver(
                "users",
                reads="bronze.users",
                value=Json("id string, version bigint, name string"),
                columns={
                    "id": "coalesce(id, cast(_kafka.key as string))",
                    "place": "_kafka.offset",
                    "changed_at": "_kafka.timestamp",
                    "name": "name",
                    "is_deleted": "_kafka.value is null",
                },
                key=["id", "place"],
                event_time="changed_at",
                watermark="1 day",
                rules=[Rule("has_name", "name is not null")],
                tombstones="keep",
            )
        ],
        gold=[
            Upsert(
                "users",
                reads="silver.users",
                key=["id"],
                newest_by=["place"],
                columns={"id": "id", "name": "name", "place": "place"},
                delete_when="is_deleted",
            )
        ],
    )


@pytest.mark.long
def test_a_tombstone_deletes_its_keys_row_and_a_later_value_brings_it_back(
    spark: Any, tmp_path: Path, broker: str, topic: str, send: Callable[[str, list[Message]], None]
) -> None:
    settings = make_settings(tmp_path, broker)
    engine = Engine(spark, declared(topic), settings, broker)
    chance = random.Random(7)  # noqa: S311
    expected: dict[str, str] = {}
    tombstones = 0
    for part in range(3):
        messages = []
        for number in range(40):
            key = f"u{chance.randrange(12)}"
            if chance.random() < 0.3:
                messages.append(Message(value=None, key=key.encode()))
                expected.pop(key, None)
                tombstones += 1
            else:
                name = f"{key} {part} {number}"
                value = json.dumps({"id": key, "version": number, "name": name}).encode()
                messages.append(Message(value=value, key=key.encode()))
                expected[key] = name
        # Of no key: nobody knows what it deletes. Of no name: a rule that a tombstone is not asked.
        messages += [Message(value=None, key=None), Message(value=b'{"id": "x", "version": 1}', key=b"x")]
        send(topic, messages)
        engine.run()
        assert {row["id"]: row["name"] for row in engine.rows("gold.users")} == expected
    assert engine.faults() == ()
    silver = engine.rows("silver.users")
    assert sum(row["is_deleted"] for row in silver) == tombstones
    assert len(silver) == 120
    aside = [tuple(row["reasons"]) for row in engine.rows("silver.users__quarantine")]
    assert sorted(aside) == [("has_name",)] * 3 + [("null_key",)] * 3
