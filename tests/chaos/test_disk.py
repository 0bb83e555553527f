"""A disk that is full at a drawn byte, and one that is slow: no row is lost or doubled.

``CHAOS_SEED=…`` draws the bytes again; ``CHAOS_DISKS=n`` fills each volume n times (once by default).
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestration.records.audit.audit import audit
from tests.chaos.cuts import one_cycle, shop
from tests.chaos.cuts.recorded import build_library
from tests.support.processes import EXAMPLE, medallion

pytestmark = pytest.mark.long
_MOST_BYTES = {"tables": 60_000, "checkpoints": 6_000}
"""About as many bytes as a cycle writes into the folder."""


def _compare(spark: Any, broker: str, topic: str, folder: Path, usual: Path) -> None:
    found = shop.engine(spark, folder, broker, topic)
    found.run("bronze", "silver", "gold")
    assert shop.content(found) == shop.content(shop.engine(spark, usual, broker, topic))
    (silver,) = found.pipeline.silver
    assert audit(spark, found.pipeline, silver, found.layout, again_seconds=0).faults == ()


def _begin(
    spark: Any, broker: str, topic: str, send: Callable[..., None], folder: Path, *names: str
) -> list[Path]:
    """Folders with the same tables, and new records in the topic; the first one has processed them."""
    folders = [folder / name for name in ("usual", *names)]
    send(topic, shop.BEFORE)
    for each in folders:
        each.mkdir()
        shop.engine(spark, each, broker, topic).run("bronze", "silver", "gold")
    send(topic, shop.NEW)
    shop.engine(spark, folders[0], broker, topic).run("bronze", "silver", "gold")
    return folders


@pytest.mark.parametrize("volume", sorted(_MOST_BYTES))
def test_a_volume_that_is_full_ends_the_run_in_words_and_the_next_start_goes_on(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path, volume: str
) -> None:
    """Every write of the JVM, of delta-rs and of Python fails from some byte on."""
    seed = int(os.environ.get("CHAOS_SEED", secrets.randbelow(10**6)))
    draw = random.Random(seed)  # noqa: S311  # a seeded case, no secret
    names = [f"full_{n}" for n in range(int(os.environ.get("CHAOS_DISKS", "1")))]
    usual, *folders = _begin(spark, broker, topic, send, tmp_path, *names)
    library, failed = build_library(tmp_path), 0
    for place, folder in enumerate(folders):
        # The first disk is full before a run can end.
        after = draw.randrange(_MOST_BYTES[volume] if place else 200)
        print(f"CHAOS_SEED={seed}: {volume} full after {after} bytes", flush=True)  # noqa: T201
        full = {
            "LD_PRELOAD": str(library),
            "FILES_BELOW": str(_volume(shop.engine(spark, folder, broker, topic).layout, volume)),
            "FILES_FULL_AFTER": str(after),
        }
        process = one_cycle.run(folder, broker, topic, {**os.environ, **full})
        if process.returncode:
            failed += 1
            assert "No space left on device" in process.stderr or "disk" in process.stderr
        _compare(spark, broker, topic, folder, usual)
    print(f"{len(folders)} full disks, {failed} ended the run", flush=True)  # noqa: T201
    assert failed


def _volume(layout: Any, volume: str) -> Path:
    query = "silver.orders"
    path = layout.table_path(query) if volume == "tables" else layout.checkpoint_path(query)
    return Path(path).parents[1 if volume == "tables" else 0]


@pytest.mark.parametrize("below", ["data", "warehouse"])
def test_a_read_only_folder_is_one_line_with_the_folder(tmp_path: Path, below: str) -> None:
    """Before Spark or a broker is started."""
    setting = f"warehouse={tmp_path / 'warehouse'}"
    with medallion(tmp_path, EXAMPLE, setting, "kafka.bootstrap_servers=none:1") as commands:
        read_only = {
            "LD_PRELOAD": str(build_library(tmp_path)),
            "FILES_BELOW": str(tmp_path / below),
            "FILES_READ_ONLY": "1",
        }
        command = commands.run("run", "silver", env=read_only)
        assert command.code() == 1
        assert "Read-only file system" in command.stderr
        assert str(tmp_path / below) in command.stderr
        assert "Traceback" not in command.stderr


def test_a_slow_disk_changes_nothing(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Each flush takes 100 ms longer."""
    usual, slow = _begin(spark, broker, topic, send, tmp_path, "slow")
    slowed = {
        "LD_PRELOAD": str(build_library(tmp_path)),
        "FILES_BELOW": str(slow),
        "FILES_SLOW_MS": "100",
    }
    process = one_cycle.run(slow, broker, topic, {**os.environ, **slowed})
    assert process.returncode == 0, process.stderr[-2000:]
    _compare(spark, broker, topic, slow, usual)
