"""A cycle of the three jobs, cut at every change of a file: every start from there ends with the same tables.

One process runs a cycle on a real broker while every change of a file is recorded, whoever makes it: Spark,
Delta and the engine's Java classes in the JVM, delta-rs, Python. The disk as it was before and after each
change is then written into a folder of its own, and the jobs start there, in one JVM.

``CHAOS_CUTS=all`` starts from every cut point, ``CHAOS_CUTS=n`` from n of them, spread evenly (8 by
default); ``CHAOS_CUT=k`` from the one after k changes. ``CHAOS_SECONDS`` ends a run early, and says how far
it came.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestration.records.audit.audit import audit
from tests.chaos.cuts import one_cycle, shop
from tests.chaos.cuts.recorded import Change, Disk, build_library, environment, read_changes
from tests.support.heap import release_tables

pytestmark = pytest.mark.long


@dataclass
class Cycle:
    """A recorded cycle.

    Attributes:
        before: A copy of the data folder from before the cycle.
        recorded: The data folder that was recorded.
        changes: Its changes, in order.
        expected: Rows of all tables after the cycle.
    """

    spark: Any
    broker: str
    topic: str
    before: Path
    recorded: Path
    changes: Sequence[Change]
    expected: Mapping[str, Counter[str]]

    def disk(self) -> Disk:
        """The folder before the first change."""
        return Disk(self.recorded, self.before)

    def start_from(self, disk: Disk, name: str, *, after_power_cut: bool = False) -> None:
        """Start the jobs from a state of the disk, and compare all tables with those of the whole cycle."""
        folder = self.before.parent / name
        disk.write_to(folder / "data", after_power_cut=after_power_cut)
        engine = shop.engine(self.spark, folder, self.broker, self.topic)
        engine.run("bronze", "silver", "gold")
        for table, rows in shop.content(engine).items():
            expected = self.expected[table]
            assert (rows - expected, expected - rows) == (Counter(), Counter()), table
        (silver,) = engine.pipeline.silver
        assert audit(self.spark, engine.pipeline, silver, engine.layout, again_seconds=0).faults == ()
        shutil.rmtree(folder)
        release_tables()


@pytest.fixture(scope="module", params=["existing tables", "no table"])
def cycle(  # what a cycle needs
    request: pytest.FixtureRequest,
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Cycle:
    """A cycle over tables that are there already, or the one that creates them; two micro-batches of bronze
    and of silver.
    """
    folder, topic = tmp_path_factory.mktemp("cuts"), new_topic()
    recorded, before, log = folder / "recorded", folder / "before", folder / "changes"
    recorded.mkdir()
    send(topic, shop.BEFORE)
    if request.param == "existing tables":
        shop.engine(spark, recorded, broker, topic).run("bronze", "silver", "gold")
    (recorded / "data").mkdir(exist_ok=True)
    shutil.copytree(recorded / "data", before)
    send(topic, shop.NEW)
    library = build_library(folder)
    process = one_cycle.run(recorded, broker, topic, environment(library, recorded / "data", log))
    assert process.returncode == 0, process.stderr[-2000:]
    expected = shop.content(shop.engine(spark, recorded, broker, topic))
    assert (expected["gold.latest"].total(), expected["silver.orders__quarantine"].total()) == (6, 3)
    return Cycle(spark, broker, topic, before, recorded / "data", list(read_changes(log)), expected)


def _chosen(count: int) -> set[int]:
    """The cut points to start from, by the number of changes before them."""
    if (one := os.environ.get("CHAOS_CUT")) is not None:
        return {int(one)}
    wanted = os.environ.get("CHAOS_CUTS", "8")
    number = count + 1 if wanted == "all" else min(int(wanted), count + 1)
    return {round(n * count / max(1, number - 1)) for n in range(number)}


def _run_all(cycle: Cycle, kind: str, chosen: set[int], start: Callable[[Disk, int], bool]) -> None:
    """Start from the chosen cut points; each failure is printed with its cut point."""
    began, limit = time.monotonic(), float(os.environ.get("CHAOS_SECONDS", "1e9"))
    disk, failed, ran, same = cycle.disk(), [], 0, 0
    for number, change in enumerate((None, *cycle.changes)):
        if change is not None:
            disk.apply(change)
        if number not in chosen or time.monotonic() - began > limit:
            continue
        try:
            did_start = start(disk, number)
        except Exception as error:  # noqa: BLE001  # all cut points run; those that fail are listed
            did_start = True
            failed.append(f"CHAOS_CUT={number} ({change}): {type(error).__name__}: {str(error)[:300]}")
            print(failed[-1], flush=True)  # noqa: T201
        ran, same = ran + did_start, same + (not did_start)
    print(  # noqa: T201
        f"{kind}: {len(cycle.changes)} changes, {len(cycle.changes) + 1} cut points, {ran} started from, "
        f"{same} with the same files as the one before, {len(failed)} failed",
        flush=True,
    )
    assert failed == []


def test_the_recorder_saw_every_change(cycle: Cycle) -> None:
    """The changes, made one after the other, give the folder that the cycle has left, byte by byte."""
    disk = cycle.disk()
    for change in cycle.changes:
        disk.apply(change)
    copy = cycle.before.parent / "replayed"
    disk.write_to(copy)
    assert _files(copy) == _files(cycle.recorded)
    makers = {"_delta_log", "checkpoints", "offsets", "commits", "state"}
    assert {part for change in cycle.changes for part in makers & set(Path(change.path).parts)} == makers


def _files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_a_kill_at_any_change_of_a_file_loses_and_doubles_nothing(cycle: Cycle) -> None:
    """Before and after each change."""

    def start(disk: Disk, number: int) -> bool:
        if number and cycle.changes[number - 1].kind == "S":
            return False  # a flush changes no file
        cycle.start_from(disk, f"cut_{number}")
        return True

    _run_all(cycle, "kill", _chosen(len(cycle.changes)), start)


def test_a_power_cut_at_any_change_loses_and_doubles_nothing(cycle: Cycle) -> None:
    """Only what was flushed is there; nothing is flushed between two flushes."""

    def start(disk: Disk, number: int) -> bool:
        if number and cycle.changes[number - 1].kind != "S" and "CHAOS_CUT" not in os.environ:
            return False
        cycle.start_from(disk, f"power_{number}", after_power_cut=True)
        return True

    flushes = [0, *(n for n, change in enumerate(cycle.changes, 1) if change.kind == "S")]
    chosen = {flushes[n] for n in _chosen(len(flushes) - 1)} if "CHAOS_CUT" not in os.environ else _chosen(0)
    _run_all(cycle, "power cut", chosen, start)


def test_a_disk_full_at_a_random_byte_loses_and_doubles_nothing(cycle: Cycle) -> None:
    """A write ends after some of its bytes, and the process with it; the seed is printed."""
    seed = int(os.environ.get("CHAOS_SEED", "0"))
    draw = random.Random(seed)  # noqa: S311  # a seeded case, no secret
    writes = [n for n, change in enumerate(cycle.changes) if change.kind == "W" and len(change.data) > 1]
    wanted = os.environ.get("CHAOS_CUTS", "8")
    count = len(writes) if wanted == "all" else min(int(wanted) // 2, len(writes))
    for number in sorted(draw.sample(writes, count)):
        change = cycle.changes[number]
        cut = draw.randrange(1, len(change.data))
        disk = cycle.disk()
        for each in cycle.changes[:number]:
            disk.apply(each)
        disk.apply(change, cut=cut)
        print(f"CHAOS_SEED={seed}: {cut} bytes of {change}", flush=True)  # noqa: T201
        cycle.start_from(disk, f"full_{number}")
    print(f"disk full: {len(writes)} writes, {count} cut at a random byte, 0 failed", flush=True)  # noqa: T201
