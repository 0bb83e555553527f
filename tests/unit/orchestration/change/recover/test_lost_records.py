"""A silver table that is filled again must not lose rows whose records are nowhere else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from common.config.paths import Layout
from common.declare import Topic
from common.delta.match.source_match import Source, last_commits
from common.errors import BrokerError, BrokerStoppedError, CheckpointMismatchError, MedallionError
from common.machine.storage_folder import StorageFolder
from common.streaming.topic_identity import BrokerTopic
from orchestration.change.recover import accept_gap
from orchestration.change.recover.accept_gap import accept_gaps
from orchestration.change.recover.lost_records import Ask
from orchestration.change.recover.remedies import plan
from silver.read.column_names import COORDINATES, PLACE
from tests.conftest import make_settings
from tests.support.oracles.orders import orders_pipeline

PIPELINE = orders_pipeline("orders", watermark="1 hour")
BRONZE, SILVER, QUARANTINE = "bronze.orders", "silver.orders", "silver.orders__quarantine"


class Tables:
    """Bronze and silver have read offsets 0 to 44 of partition 0, then 45 to 59; bronze has lost the latter.

    Offsets 50 to 54 were of an aborted transaction: they are in no table.
    """

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(str(folder), str(folder / "checkpoints"), folder)
        self.bronze = Source(BRONZE, self.layout.table_path(BRONZE))
        self.append(BRONZE, 0, range(45), ends={"0": 45})
        self.judge(0, range(45), range(0))
        shutil.copytree(self.bronze.path, folder / "older")
        self.append(BRONZE, 1, [*range(45, 50), *range(55, 60)], ends={"0": 60})
        self.judge(1, [*range(45, 49), *range(55, 60)], [49])
        for folder_, content in (("offsets", json.dumps(self.end(2))), ("commits", "{}")):
            written = f"v1\n{{}}\n{content}" if folder_ == "offsets" else "v1\n{}"
            for number in range(2):
                self.checkpoint(SILVER, f"{folder_}/{number}", written)
        self.checkpoint(SILVER, "metadata", '{"id":"q"}')
        self.checkpoint(BRONZE, "metadata", '{"id":"q"}')
        self.checkpoint(BRONZE, "offsets/0", 'v1\n{}\n{"orders":{"0":45}}')
        self.checkpoint(BRONZE, "commits/0", "v1\n{}")
        shutil.rmtree(self.bronze.path)
        shutil.move(folder / "older", self.bronze.path)

    def checkpoint(self, query: str, name: str, content: str) -> None:
        StorageFolder(self.layout.checkpoint_path(query)).write(name, content.encode())

    def end(self, version: int) -> dict[str, Any]:
        return {"reservoirVersion": version, "index": -1}

    def append(self, table: str, number: int, offsets: Iterable[int], ends: Mapping[str, int]) -> None:
        """A micro-batch of bronze."""
        self._commit(table, table, number, [{"orders": dict(ends)}], PLACE, offsets)

    def judge(self, number: int, good: Iterable[int], bad: Iterable[int]) -> None:
        """A micro-batch of silver."""
        end = self.end(number + 1)
        read = {"source_commits": last_commits((end,), [self.bronze])}
        self._commit(SILVER, SILVER, number, [end], COORDINATES, good, **read)
        self._commit(QUARANTINE, SILVER, number, [end], PLACE, bad, **read)

    def _commit(  # what a commit has
        self,
        table: str,
        query: str,
        number: int,
        positions: list[Any],
        names: Iterable[str],
        offsets: Iterable[int],
        **facts: Any,
    ) -> None:
        own = {"query": query, "query_id": "q", "batch_id": number, "positions": positions, **facts}
        told = CommitProperties(custom_metadata={"userMetadata": json.dumps(own)})
        found = list(offsets)
        columns = [pa.array(["orders"] * len(found), pa.string()), pa.array([0] * len(found), pa.int32())]
        rows = pa.table([*columns, pa.array(found, pa.int64())], names=list(names))
        write_deltalake(self.layout.table_path(table), rows, mode="append", commit_properties=told)


def kafka(first: int, end: int = 90) -> Ask:
    return lambda topic, names: {"orders": BrokerTopic("A", {0: first}, {0: end})}


def away(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
    raise BrokerError("the broker does not answer. Start it")


def stopped(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
    raise BrokerStoppedError("the embedded broker is not running")


def _as_it_is(tables: Tables) -> None:
    """Bronze has yet to read what it lacks."""


def _read_again(tables: Tables) -> None:
    """Bronze has read all of it again."""
    tables.append(BRONZE, 1, [*range(45, 50), *range(55, 60)], {"0": 60})


def _passed(tables: Tables) -> None:
    """Bronze has gone on with what Kafka has left, without a word: ``fail_on_data_loss=False``."""
    tables.append(BRONZE, 1, range(58, 70), {"0": 70})


@pytest.mark.parametrize(
    ("happens", "ask", "words"),
    [
        (_as_it_is, kafka(0), ""),
        (_as_it_is, kafka(45), ""),
        (
            _as_it_is,
            kafka(55),
            "neither bronze.orders nor Kafka has 5 records .*offsets 45 and 49.* would lose them",
        ),
        (_as_it_is, kafka(57), "has 7 records of topic orders, partition 0, between offsets 45 and 56"),
        (_as_it_is, kafka(0, end=59), "has 1 record of topic orders, partition 0, between offsets 59 and 59"),
        (_as_it_is, lambda topic, names: {}, "has 10 records of topic orders"),
        (_as_it_is, away, "whether Kafka still has the records .* not asked: the broker does not answer"),
        (_as_it_is, stopped, ""),
        (_read_again, away, ""),
        (_passed, away, "neither bronze.orders nor Kafka has 8 records .*between offsets 45 and 57"),
    ],
)
def test_a_refill_that_would_lose_rows_is_refused_by_the_command_that_was_named(
    tmp_path: Path, happens: Any, ask: Ask, words: str
) -> None:
    """Bronze is an older copy, and Kafka has deleted what it lacks: silver's rows are all that is left."""
    tables = Tables(tmp_path)
    happens(tables)
    recovered = partial(plan, PIPELINE, tables.layout, None, only=SILVER, ask=ask)
    if words:
        with pytest.raises(MedallionError, match=words) as refusal:
            recovered()
        assert "and then: medallion recover" in str(refusal.value)
        return
    (step,) = recovered()
    assert (step.query, step.kind) == (SILVER, "refill")
    assert ("was not asked" in "; ".join(step.reasons)) == (ask is stopped)


def test_a_gap_is_not_accepted_while_silver_has_rows_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the gap bronze would look whole, and silver would be filled again without its rows."""

    @contextmanager
    def opened(*_: object) -> Iterator[str]:
        yield "broker"

    def found(address: str, names: Iterable[str], options: object) -> Mapping[str, BrokerTopic]:
        return kafka(55)(PIPELINE.topics[0], list(names))

    tables = Tables(tmp_path)
    monkeypatch.setattr(accept_gap, "open_broker", opened)
    monkeypatch.setattr(accept_gap, "broker_topics", found)
    monkeypatch.setattr(accept_gap, "_passed", lambda *_: [])
    monkeypatch.setattr(accept_gap, "_time_in_bronze", lambda *_: None)
    settings = make_settings(tmp_path, "none:1")
    accepted = partial(
        accept_gaps, PIPELINE, settings, tables.layout, PIPELINE.topics[0], lambda: None, is_plan=True
    )
    with pytest.raises(
        CheckpointMismatchError, match=r"has 5 records .* recover bronze.orders --accept-gap$"
    ):
        accepted()
    for name in (SILVER, QUARANTINE):  # given up, as the message says
        shutil.rmtree(tables.layout.table_path(name))
    shutil.rmtree(tables.layout.checkpoint_path(SILVER))
    (gap,) = accepted().gaps
    assert (gap.first_offset, gap.last_offset) == (45, 54)
