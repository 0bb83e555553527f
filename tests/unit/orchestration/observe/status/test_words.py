"""What is said of a table is so: the words over drawn lives of a job, against a world of plain numbers.

The world knows how many records were sent and how many each table has read; it knows no word. Of each word
that may be said there is one claim here, in numbers; a text that makes no known claim, or one that is not
true of the world, fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from common.delta.checkpoint import PlannedBatch
from common.delta.lease.lease_holder import Holder
from common.delta.log import Snapshot
from orchestration.access.history.job_state import JobQuery, JobState
from orchestration.cli.observe.status_output import render
from orchestration.observe.page import app
from orchestration.observe.status.document import document
from orchestration.observe.status.model import Lag, Status, TableStatus, TimeToLoss
from orchestration.observe.status.problems import problems
from orchestration.observe.status.query_state import Planned, StallWatch, query_now
from orchestration.observe.status.words.state import Ran, layer_ran, table_ran, to_count_words

READS = {
    "bronze.a": "topic",
    "silver.a": "bronze.a",
    "gold.a": "silver.a",
    "gold.b": "gold.a",
    "publish.c": "gold.b",
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = 86_400.0


@dataclass
class World:
    """How much was sent, and how far each query is; ``batch``: how many rows a running micro-batch reads."""

    sent: int = 0
    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(READS, 0))
    batch: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(READS, 0))
    unmoved: dict[str, float] = field(default_factory=lambda: dict.fromkeys(READS, 0.0))
    rate: dict[str, float] = field(default_factory=lambda: dict.fromkeys(READS, 0.0))
    keeps: float = 30 * DAY
    job: str = "runs"
    has_broker: bool = True
    at: datetime = NOON

    def has(self, source: str) -> int:
        return self.sent if source == "topic" else self.read[source]

    def unread(self, table: str) -> int | None:
        if READS[table] == "topic" and not self.has_broker:
            return None
        return self.has(READS[table]) - self.read[table]

    def above(self, table: str) -> list[int | None]:
        source = READS[table]
        return [] if source == "topic" else [self.unread(source), *self.above(source)]

    def stalled(self, table: str) -> bool:
        return bool(self.unread(table)) and table not in self.batch and self.unmoved[table] > 60

    def step(self, chance: Random) -> str:
        """One thing that happens, by chance."""
        table = chance.choice([*READS])
        what = chance.choice(
            ["send", "begin", "begin", "end", "end", "pass", "stop", "start", "kill", "broker"]
        )
        if what == "send":
            self.sent += chance.choice([1, 2, 13_000])
        elif (
            what == "begin"
            and self.job == "runs"
            and table not in self.batch
            and self.unread(table) is not None
        ):
            self.batch[table] = self.unread(table) or 0
        elif what == "end" and self.job == "runs" and table in self.batch:
            rows = self.batch.pop(table)
            self.read[table] += rows
            self.ended[table] += 1
            self.rate[table] = rows / 60
        elif what == "pass":
            seconds = chance.choice([1, 20, 100])
            self.at += timedelta(seconds=seconds)
            for one in READS:
                self.rate[one] = 0.0 if seconds > 60 else self.rate[one]
        elif what == "stop":
            self.job, self.batch = "stopped", {}
        elif what in {"start", "kill"}:
            self.job = "runs" if what == "start" or self.job == "stopped" else "killed"
        elif what == "broker":
            self.has_broker = not self.has_broker
            self.keeps = chance.choice([30 * DAY, 3 * DAY, 3_600.0])
        return f"{what} {table}"


class Told:
    """The world as the product's facts, seen again and again."""

    def __init__(self) -> None:
        self.stalls = StallWatch(lambda name: "")
        self.seen: dict[str, tuple[object, datetime]] = {}

    def status(self, world: World) -> Status:
        for table in READS:  # unread for how long, without a micro-batch: the world's own clock
            place = (world.ended[table], table in world.batch)
            waits = bool(world.unread(table)) and world.job == "runs"
            if not waits or self.seen.get(table, (None, world.at))[0] != place:
                self.seen.pop(table, None)
            if waits:
                since = self.seen.setdefault(table, (place, world.at))[1]
                world.unmoved[table] = (world.at - since).total_seconds()
            else:
                world.unmoved[table] = 0.0
        tables = tuple(self.table(world, name) for name in READS)
        return Status("p", world.at, "broker:9092", "" if world.has_broker else "does not answer", tables)

    def table(self, world: World, name: str) -> TableStatus:
        count = world.unread(name)
        lag = Lag("records" if name == "bronze.a" else "rows", count)
        at, host, pid = world.at, "elsewhere", os.getpid()
        written = at - timedelta(seconds=60 if world.job == "killed" else 0)
        queries = {one: JobQuery("working" if one in world.batch else "waiting", at) for one in READS}
        ended = "stopped" if world.job == "stopped" else ""
        job = JobState("up", "r", pid, host, at, written, queries, ended)
        holder = None if world.job == "stopped" else Holder("up", pid, host, NOON)
        newest = world.ended[name] if name in world.batch else world.ended[name] - 1
        planned = Planned(
            PlannedBatch(newest, int(at.timestamp() * 1000), 0, ()) if newest >= 0 else None,
            world.ended[name] - 1 if world.ended[name] else None,
        )
        query = query_now(name, (job,), holder, planned, at)
        exists = world.ended[name] > 0 and not name.startswith("publish")
        loss = TimeToLoss(world.keeps, "retention") if count else TimeToLoss(None)
        return TableStatus(
            table=name,
            kind="view",
            reads=(READS[name],),
            path="",
            now=Snapshot(3, "t", world.read[name], 1, 9, at, ()) if exists else None,
            lag=lag,
            rows_per_second=world.rate[name],
            last_batch_id=planned.committed,
            watermark=None,
            quarantine=None,
            late=None,
            other=None,
            fields=None,
            holder=holder,
            query=self.stalls.judged(name, query, lag, planned, at),
            freshness=None,
            loss=loss,
        )


Claim = Callable[[World, str, tuple[str, ...]], bool]


def number(text: str) -> int:
    return int(text.replace(",", ""))


UNREAD: Mapping[str, Claim] = {
    "": lambda w, t, _: w.ended[t] == 0 and not w.unread(t) and not any(w.above(t)),
    "unknown": lambda w, t, _: w.unread(t) is None,
    "source behind": lambda w, t, _: w.unread(t) == 0 and any(w.above(t)),
    "source read": lambda w, t, _: w.unread(t) == 0 and not any(w.above(t)) and None in w.above(t),
    "up to date": lambda w, t, _: w.unread(t) == 0 and all(one == 0 for one in w.above(t)),
    r"([\d,]+) (record|row)s?": lambda w, t, given: w.unread(t) == number(given[0]) > 0,
}
DOING: Mapping[str, Claim] = {
    "waits for data": lambda w, t, _: w.job == "runs" and t not in w.batch and w.unread(t) == 0,
    r"([\d,]+) (record|row)s? to read by its next micro-batch": lambda w, t, given: (
        w.job == "runs" and t not in w.batch and w.unread(t) == number(given[0]) > 0
    ),
    "waits for its next micro-batch": lambda w, t, _: (
        w.job == "runs" and t not in w.batch and w.unread(t) is None
    ),
    r"micro-batch (\d+)( for .*)?": lambda w, t, given: (
        w.job == "runs" and t in w.batch and w.ended[t] == number(given[0])
    ),
    r"begins no micro-batch, and ([\d,]+) \w+ (?:is|are) unread: no progress for .*": lambda w, t, given: (
        w.job == "runs" and w.stalled(t) and w.unread(t) == number(given[0])
    ),
    "job up was stopped": lambda w, t, _: w.job == "stopped",
    r"job up \(pid \d+\) has not answered for .*": lambda w, t, _: w.job == "killed",
}
LOSS: Mapping[str, Claim] = {
    "": lambda w, t, _: not w.unread(t) or (w.keeps >= 7 * DAY and w.job != "stopped"),
    "unread data is lost in (3 d|1 h)": lambda w, t, given: (
        bool(w.unread(t)) and w.keeps == {"3 d": 3 * DAY, "1 h": 3_600}[given[0]]
    ),
    "unread data is kept for another 30 d": lambda w, t, _: (
        bool(w.unread(t)) and w.keeps == 30 * DAY and w.job == "stopped"
    ),
}


def of_layer(world: World, layer: str) -> list[str]:
    return [table for table in READS if table.startswith(layer)]


LAYER: Mapping[str, Claim] = {
    "stopped": lambda w, t, _: w.job == "stopped",
    r"([\d.,]+) rows/s read": lambda w, t, given: (
        w.job != "stopped"
        and sum(w.rate[one] for one in of_layer(w, t))
        == pytest.approx(float(given[0].replace(",", "")), rel=0.1, abs=0.001)
    ),
    "a micro-batch runs": lambda w, t, _: w.job == "runs" and any(one in w.batch for one in of_layer(w, t)),
    r"(\d) of (\d) do not run": lambda w, t, given: (
        (w.job == "killed" and given[0] == given[1])
        or sum(w.stalled(one) for one in of_layer(w, t)) == number(given[0])
    ),
    r"([\d,]+) (?:record|row)s? to read": lambda w, t, given: (
        sum(w.unread(one) or 0 for one in of_layer(w, t)) == number(given[0]) > 0
    ),
    "not known what is unread": lambda w, t, _: None in [w.unread(one) for one in of_layer(w, t)],
    "nothing to read": lambda w, t, _: all(
        w.unread(one) == 0 and one not in w.batch for one in of_layer(w, t)
    ),
}


def require_true(claims: Mapping[str, Claim], said: str, world: World, about: str, life: list[str]) -> None:
    """Fail if a text makes no claim, or one that is not true of the world."""
    made = [(claim, found) for text, claim in claims.items() if (found := re.fullmatch(text, said))]
    assert made, f"{about}: {said!r} makes no claim that is known; {life}"
    for claim, found in made:
        assert claim(world, about, found.groups()), f"{about}: {said!r} is not so: {world}; {life}"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_what_is_said_of_a_table_is_so(seed: int) -> None:
    chance, world, told, life = Random(seed), World(), Told(), list[str]()  # noqa: S311  # a drawn life
    for _ in range(60):
        life.append(world.step(chance))
        status = told.status(world)
        shown = document(status)
        for layer, text in shown["layers"].items():
            require_true(LAYER, text, world, layer, life)
        for table in shown["tables"]:
            name, words = table["table"], table["words"]
            require_true(UNREAD, words["unread"], world, name, life)
            require_true(DOING, table["query"]["phase"], world, name, life)
            require_true(LOSS, words["loss"], world, name, life)
            assert words["is_rate_known"] or (name in world.batch and not world.rate[name])
        for problem in problems(status):
            if waits := re.fullmatch(r".*, and ([\d,]+) (?:record|row)s? waits?", problem.text):
                assert number(waits[1]) == world.unread(problem.table)
    screen = StringIO()
    Console(file=screen, width=200, color_system=None).print(render(status))
    assert all(table["words"]["unread"] in screen.getvalue() for table in shown["tables"])


def test_the_page_words_no_state_of_its_own() -> None:
    script = (Path(app.__file__).parent / "assets" / "static" / "page.js").read_text(encoding="utf-8")
    for words in ("idle", "waits for data", "unread data", "nothing to read", "rows/s read"):
        assert words not in script


@pytest.mark.parametrize(
    ("ran", "table", "layer"),
    [
        (Ran(0, "rows", 2.3), "nothing to read", "gold: nothing to read, 2.3 s"),
        (
            Ran(0, "rows", 4.0, changed=4, written=168),
            "168 rows written",
            "gold: 4 tables changed, 168 rows written in 4.0 s",
        ),
        (Ran(0, "rows", 4.0, changed=1, written=0), "0 rows written", None),
        (Ran(2, "rows", 40.0, 1, 2), "2 rows read, 0.1 rows/s", "gold: 2 rows in 40.0 s (0.1 rows/s)"),
        (Ran(1, "offsets", 60.0, 1, 1), "1 offset read, 0.02 rows/s", None),
        (Ran(1, "rows", 60_000.0, 1, 1), "1 row read, 0.001 rows/s", None),
        (Ran(15_108, "rows", 10.7, 1, 9), "15,108 rows read, 1,412 rows/s", None),
    ],
)
def test_a_run_that_read_or_changed_something_says_so(ran: Ran, table: str, layer: str | None) -> None:
    """Views that had written 168 rows were told to have had nothing to read, and a layer 0 rows/s."""
    assert table_ran(ran) == table
    assert layer is None or layer_ran("gold", ran) == layer


def test_what_waits_already_is_counted_before_a_run() -> None:
    assert to_count_words((), None) == "reads a source whose records are counted on the way"
    assert to_count_words(("bronze.a",), 0) == "reads what the run brings to bronze.a"
    assert to_count_words(("bronze.a", "bronze.b"), 1_800) == (
        "reads 1,800 rows that wait, and what the run brings to bronze.a and bronze.b"
    )
