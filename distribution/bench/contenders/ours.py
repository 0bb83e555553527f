"""The product: a user's pipeline file, run by the real ``medallion`` command with its default settings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from distribution.bench.contenders.contender import CORES, DRIVER_MEMORY
from distribution.bench.contenders.started_process import Started, set_options
from distribution.bench.data.topic import Source
from distribution.bench.measure.oracle import Tables

_TEXT = """
from common.declare import Aggregate, Json, Pipeline, Rule, Silver, Topic, Upsert

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("events", topics=["{topic}"])],
    silver=[
        Silver(
            "events",
            reads="bronze.events",
            value=Json(
                "event_id string, event_time timestamp, sent_at bigint, kind string, product string, "
                "cents bigint, quantity int, %(fields)suser struct<%(user)s>"
            ),
            columns={{
                "event_id": "event_id", "event_time": "event_time", "sent_at": "sent_at", "kind": "kind",
                "product": "product", "cents": "cents", "quantity": "quantity", "user_id": "user.id",
                "country": "user.country",%(columns)s
            }},
            key=["event_id"], event_time="event_time", watermark="10 minutes",%(rules)s
        )
    ],
    gold=[
        Aggregate(
            "groups", reads="silver.events", by=["product"],
            measures={{"events": "count(*)", "cents": "sum(cents)", "newest_sent_at": "max(sent_at)"}},
        ),
        Upsert(
            "latest", reads="silver.events", key=["user_id"], newest_by=["event_time", "event_id"],
            columns=["user_id", "event_id", "event_time", "sent_at", "product", "cents"],
        ),
    ],
)
"""

PIPELINE = _TEXT % {"fields": "", "user": "id: bigint, country: string", "columns": "", "rules": ""}
WIDE = _TEXT % {
    "fields": "currency string, discount double, note string, "
    "device struct<os: string, model: string, locale: string>, ",
    "user": "id: bigint, name: string, country: string, is_member: boolean",
    "columns": """
                "currency": "currency", "discount": "discount", "name": "user.name", "note": "note",
                "is_member": "user.is_member", "os": "device.os",""",
    "rules": """
            rules=[Rule("quantity_in_range", "quantity between 1 and 9")],""",
}
"""The same job with all fields of the events declared, 15 columns of silver, and a rule."""


class Ours:
    """The product.

    Args:
        settings: Further settings, as ``--set`` takes them.
        pipeline: Text of the pipeline file, with ``{topic}`` for its topic.
    """

    name = "ours"
    what = "`medallion`, its default settings"
    drops_beyond = False

    def __init__(self, settings: Sequence[str] = (), pipeline: str = PIPELINE) -> None:
        self._settings, self._pipeline = tuple(settings), pipeline

    def set_up(self) -> None:
        """It is here."""

    def drain(self, folder: Path, source: Source, *, bronze_only: bool = False) -> Started:
        """``medallion backfill``, or ``run bronze --available-now``."""
        words = ("run", "bronze", "--available-now") if bronze_only else ("backfill",)
        return self.command(folder, source, *words)

    def run(self, folder: Path, source: Source) -> Started:
        """``medallion up``."""
        return self.command(folder, source, "up")

    def command(self, folder: Path, source: Source, *words: str) -> Started:
        """Any verb over the folder's tables; its output is in a new file, at first ``<words>.log``."""
        folder.mkdir(parents=True, exist_ok=True)
        file, settings = folder / "shop.py", folder / "medallion.yaml"
        file.write_text(self._pipeline.format(topic=source.topic), encoding="utf-8")
        settings.touch()
        given = (
            f"data_dir={folder / 'data'}",
            f"kafka.bootstrap_servers={source.bootstrap_servers}",
            f"spark.master=local[{CORES}]",
            f"spark.driver_memory={DRIVER_MEMORY}",
            *self._settings,
        )
        options = ("-p", str(file), "--settings", str(settings), *set_options(given))
        # Two processes of the same words may run at a time: a job that was a standby, and its standby.
        name, number = "_".join(words).replace("--", ""), itertools.count(2)
        log = folder / f"{name}.log"
        while log.exists():
            log = folder / f"{name}-{next(number)}.log"
        return Started("orchestration", (*words, *options), log)

    def tables(self, folder: Path) -> Tables:
        """Below its data folder."""
        root = folder / "data" / "shop" / "tables"
        return Tables(
            bronze=root / "bronze" / "events",
            silver=root / "silver" / "events",
            quarantine=root / "silver" / "events__quarantine",
            groups=root / "gold" / "groups",
            latest=root / "gold" / "latest",
        )
