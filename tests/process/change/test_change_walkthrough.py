"""The example gets other magnitude classes while events come in: planned, filled again, taken back, restated.

A reader looks at both tables all the time: each version that it sees is whole, of the former or of the new
classes, and never empty.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.processes import EXAMPLE, Command, Medallion, await_that, is_caught_up, medallion

pytestmark = pytest.mark.long

SILVER, BY_NETWORK = "silver.quakes", "gold.quakes_by_network"
FORMER = {"micro", "minor", "light", "moderate", "strong"}
NEW = {"not felt", "felt", "damaging", "destructive"}
RATE = "100"

ON_TOPIC = """
import sys
from dataclasses import replace
sys.path.insert(0, {folder!r})
from {module} import pipeline as example
topics = [replace(example.bronze[0], topics=[{topic!r}])]
silver = [replace(example.silver[0], columns={{**example.silver[0].columns, **{columns}}})]
pipeline = replace(example, bronze=topics, silver=silver, gold=example.gold[:2], quality=[])
"""


def new_class(magnitude: float) -> str:
    """As examples/earthquakes/reclassified.py has it."""
    for bound, name in ((3, "not felt"), (5, "felt"), (7, "damaging")):
        if magnitude < bound:
            return name
    return "destructive"


@dataclass
class Reader:
    """Reads both tables again and again.

    Attributes:
        classes: Which classes each table had, in order of time, without repeats.
        looks: How many versions were read.
        faults: What a reader must not see.
    """

    paths: dict[str, str]
    classes: dict[str, list[str]] = field(default_factory=lambda: {SILVER: [], BY_NETWORK: []})
    looks: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Read until told to stop; to be run in a thread of its own."""
        seen: dict[str, int] = {}
        while not self.stop.wait(0.2):
            for table, path in self.paths.items():
                if not DeltaTable.is_deltatable(path):
                    continue
                found = DeltaTable(path)
                if seen.get(table) != found.version():
                    self.look(table, found.version(), found.to_pyarrow_table())
                    seen[table] = found.version()

    def look(self, table: str, version: int, rows: pa.Table) -> None:
        """Judge a version."""
        self.looks[table] += 1
        known = self.classes[table]
        if not rows.num_rows:
            if known:
                self.faults.append(f"{table} is empty at version {version}")
            return
        if table == SILVER:
            kind = self.of_silver(version, rows)
        else:
            names = set(rows["magnitude_class"].to_pylist())
            kind = "former" if names <= FORMER else "new" if names <= NEW else "mixed"
            if kind == "mixed":
                self.faults.append(f"{table} has {sorted(names)} at version {version}")
        if not known or known[-1] != kind:
            known.append(kind)

    def of_silver(self, version: int, rows: pa.Table) -> str:
        """Which classes a version of silver has: former means none."""
        version_of = list(
            zip(
                *(rows[n].to_pylist() for n in ("quake_id", "updated_at", "event_at", "magnitude")),
                strict=True,
            )
        )
        if len(set(version_of)) != len(version_of):
            self.faults.append(f"silver has a version of a quake twice at version {version}")
        if "magnitude_class" not in rows.column_names:
            return "former"
        classes = rows["magnitude_class"].to_pylist()
        wrong = sum(new_class(m) != c for m, c in zip(rows["magnitude"].to_pylist(), classes, strict=True))
        if wrong:
            self.faults.append(
                f"silver has {wrong} of {len(classes)} rows without their class at version {version}"
            )
        return "new"


@contextmanager
def reading(commands: Medallion) -> Iterator[Reader]:
    """A reader looks while inside."""
    reader = Reader({table: commands.layout.table_path(table) for table in (SILVER, BY_NETWORK)})
    thread = threading.Thread(target=reader.run)
    thread.start()
    try:
        yield reader
    finally:
        reader.stop.set()
        thread.join()


def stop(*commands: Command) -> None:
    """End commands as Ctrl-C does."""
    for command in commands:
        command.signal(2)  # type: ignore[arg-type]
    for command in commands:
        assert command.code() == 0, command.stderr


def said(command: Command) -> str:
    """All that it printed, for the log of the test."""
    typed = " ".join(command.words[: command.words.index("--set")])
    text = f"$ medallion {typed}\n{command.stdout}{command.stderr}"
    print(text)  # noqa: T201
    return text


def test_a_changed_example_is_planned_filled_again_taken_back_and_restated_under_load(  # noqa: PLR0915  # a story
    broker: str, topic: str, tmp_path: Path
) -> None:
    def file(name: str, module: str, columns: str = "{}") -> Path:
        path = tmp_path / name
        folder = str(EXAMPLE.parent)
        path.write_text(
            ON_TOPIC.format(folder=folder, module=module, topic=topic, columns=columns), encoding="utf-8"
        )
        return path

    former, new = file("quakes.py", "pipeline"), file("reclassified.py", "reclassified")
    deeper = file("deeper.py", "pipeline", '{"depth_km": "greatest(get(geometry.coordinates, 2), 0)"}')
    with (
        medallion(tmp_path, former, f"kafka.bootstrap_servers={broker}") as commands,
        reading(commands) as reader,
    ):
        producer, job = commands.start("produce", "--rate", RATE), commands.start("up")

        def shows(table: str, kind: str) -> None:
            await_that(
                lambda: reader.classes[table][-1:] == [kind], f"{table} has the {kind} classes", producer
            )

        shows(BY_NETWORK, "former")

        # What the change will do, while the job runs.
        commands.pipeline = new
        plan = commands.run("plan")
        assert plan.code() == 5, plan.stderr
        assert "silver.quakes: new column" in said(plan)
        assert "gold.quakes_by_network: needs a rebuild" in plan.stdout

        # The shadow is filled while the job goes on; the switch asks for the job's end.
        assert "rows" in said(commands.run("rebuild", SILVER, "--plan"))
        version = DeltaTable(reader.paths[SILVER]).version()
        waits = commands.run("rebuild", SILVER)
        assert waits.code() == 4, waits.stderr
        said(waits)
        assert DeltaTable(reader.paths[SILVER]).version() > version, "the live table went on meanwhile"
        stop(job)
        switched = commands.run("rebuild", SILVER)
        assert switched.code() == 0, switched.stderr
        assert "the next start of the jobs goes on from there" in said(switched)
        assert commands.run("rebuild", BY_NETWORK).code() == 0
        job = commands.start("up")
        shows(SILVER, "new")
        shows(BY_NETWORK, "new")

        # Taken back.
        stop(job)
        undone_at = datetime.now(UTC)
        commands.pipeline = former
        undone = commands.run("rebuild", SILVER, "--undo")
        assert undone.code() == 0, undone.stderr
        said(undone)
        assert commands.run("rebuild", BY_NETWORK).code() == 0
        job = commands.start("up")
        shows(SILVER, "former")
        shows(BY_NETWORK, "former")

        # What came before the undo is judged again: a depth above the ground is 0 now.
        stop(producer)
        await_that(lambda: is_caught_up(commands), "all is caught up", job)
        stop(job)
        commands.pipeline = deeper
        restated = commands.run("restate", SILVER, "--to", undone_at.isoformat())
        assert restated.code() == 0, restated.stderr
        said(restated)
        depths = rows(commands, SILVER, ["depth_km", "_ingested_at"])
        assert min(row["depth_km"] for row in depths if row["_ingested_at"] < undone_at) == 0
        assert min(row["depth_km"] for row in depths if row["_ingested_at"] >= undone_at) < 0
        audit = commands.run("audit")
        assert audit.code() == 0, audit.stderr
        said(audit)
    assert reader.faults == []
    assert reader.classes == {table: ["former", "new", "former"] for table in (SILVER, BY_NETWORK)}
    print(f"versions read: {dict(reader.looks)}")  # noqa: T201


def rows(commands: Medallion, table: str, columns: list[str]) -> list[dict[str, Any]]:
    """Some columns of a table."""
    path = commands.layout.table_path(table)
    found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table(columns=columns).to_pylist()
    return found
