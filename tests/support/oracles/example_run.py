"""An example pipeline on its way through stages, and its gold tables beside the answers of DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Self

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from common.declare import Message, Pipeline, Topic
from tests.support.engine import Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class ExampleRun:
    """An example, what it was sent, and the stages that it has been through.

    Attributes:
        engine: Runs its pipeline.
        sent: The messages of each topic.
        began: When the first message of each topic arrived.
        arrived: How many messages of each topic are in bronze.
        reached: Stages that it has been through.
    """

    engine: Engine
    sent: Mapping[str, Sequence[Message]]
    began: datetime = NOON
    arrived: Counter[str] = field(default_factory=Counter)
    reached: list[str] = field(default_factory=list)

    def reach(self, stage: str, stages: Mapping[str, Callable[[Self], None]]) -> None:
        """Go through the stages up to this one."""
        for each, go in stages.items():
            if stage in self.reached:
                return
            if each not in self.reached:
                go(self)
                self.reached.append(each)

    def send(self, topic: str, messages: Sequence[Message]) -> None:
        """Append messages to bronze, with a second between the times at which they arrive."""
        rows = []
        for message in messages:
            at = self.began + timedelta(seconds=self.arrived[topic])
            rows.append((topic, 0, self.arrived[topic], at, 0, at, message.key, message.value, None))
            self.arrived[topic] += 1
        self.engine.append_bronze(f"bronze.{topic}", rows)

    def silver(self, table: str) -> DeltaTable:
        """A silver table, to be changed."""
        return DeltaTable(self.engine.path(f"silver.{table}"))

    def differing(self, texts: Mapping[str, str], others: Mapping[str, pa.Table]) -> dict[str, str]:
        """The gold tables that have not DuckDB's answer, and how they differ.

        Args:
            texts: The query of each table over silver and gold, after those that it reads.
            others: Gold tables that are computed elsewhere, in the order of ``texts`` before them.
        """
        found = {}
        with duckdb.connect() as duck:
            duck.execute("create schema silver; create schema gold")
            for silver in self.engine.pipeline.silver:
                duck.register(f"rows_of_{silver.name}", without_zone(self.silver(silver.name)))
                duck.execute(f"create view {silver.table} as select * from rows_of_{silver.name}")
            for name, table in others.items():
                duck.register(f"made_{name}", table)
                duck.execute(f"create table gold.{name} as select * from made_{name}")
            for name, text in texts.items():
                duck.execute(f"create table gold.{name} as {text}")
            for name in [*others, *texts]:
                answer = duck.sql(f"from gold.{name}")
                want = Counter(tuple(map(plain, row)) for row in answer.fetchall())
                assert want, name
                rows = self.engine.rows(f"gold.{name}")
                have = Counter(tuple(plain(row[column]) for column in answer.columns) for row in rows)
                if have != want:
                    found[name] = f"too much {have - want}, lacks {want - have}"
        return found


def without_zone(table: DeltaTable) -> pa.Table:
    """Rows with times in UTC, as DuckDB formats them without a zone of the machine."""
    rows = table.to_pyarrow_table()
    naive = [
        pa.field(each.name, pa.timestamp("us") if pa.types.is_timestamp(each.type) else each.type)
        for each in rows.schema
    ]
    return rows.cast(pa.schema(naive))


def plain(value: Any) -> Any:
    """A value as both engines give it: a time without its zone, a number with nine digits."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float):
        return Decimal(f"{value:.9g}").normalize()
    return Decimal(value).normalize() + 0 if isinstance(value, int | Decimal) else value


def samples(pipeline: Pipeline, seed: int, counts: Mapping[str, int]) -> dict[str, list[Message]]:
    """The first messages of each topic."""
    found = {topic.name: topic.sample for topic in pipeline.bronze if isinstance(topic, Topic)}
    return {name: list(islice(sample(seed), counts[name])) for name, sample in found.items() if sample}
