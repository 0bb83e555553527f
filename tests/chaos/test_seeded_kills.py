"""Kills at drawn writes, of silver and of a gold table of any kind: the tables are those of an unkilled run.

Each case is drawn from a seed, which is printed: ``KILL_SEED=17`` runs that case alone, ``KILL_CASES=420``
draws so many, from ``KILL_FIRST`` on, for at most ``KILL_SECONDS``. A case that fails is shrunk to the kills
that it needs, and printed with them; ``KILL_SEED=17 KILL_AT='{"3": true}'`` repeats these.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Mapping

import pytest

from orchestration.records.audit.audit import audit
from tests.pipeline.change.test_recover import (
    BEFORE,
    CUTS,
    GOLD,
    Life,
    _copy_of,
    content,
    life,  # noqa: F401  # a fixture
)
from tests.pipeline.silver.test_accounts import EVENTS
from tests.support.crashes import run_through_crashes
from tests.support.heap import release_tables

pytestmark = pytest.mark.long
_WRITES = 8
"""Silver and a gold table have about as many in a case, with those that are repeated after a kill."""


def drawn_kills(draw: random.Random) -> dict[int, bool]:
    """At which writes, counted over all runs, the process dies, and whether the write is still done."""
    return {write: draw.random() < 0.5 for write in draw.sample(range(_WRITES), draw.randint(2, 5))}


def run_case(life: Life, seed: int, kills: Mapping[int, bool] | None = None) -> int:  # noqa: F811
    """One case; returns how many kills happened."""
    draw = random.Random(seed)  # noqa: S311  # a seeded case, no secret
    gold, drawn = draw.choice(GOLD), drawn_kills(draw)
    kills = drawn if kills is None else kills
    engine = _copy_of(life, f"kill_{seed}_{time.monotonic_ns()}", (gold,))
    life.read(engine, BEFORE, len(CUTS))
    happened = run_through_crashes(lambda: engine.run("silver", "gold"), kills)
    for table, rows in content(engine).items():
        expected = life.expected[table]
        assert (rows - expected, expected - rows) == (Counter(), Counter()), f"{gold.table}: {table}"
    assert audit(engine.spark, engine.pipeline, EVENTS, engine.layout, again_seconds=0).faults == ()
    shutil.rmtree(engine.layout.local.parents[1])
    return happened


def shrunk(life: Life, seed: int, kills: Mapping[int, bool]) -> dict[int, bool]:  # noqa: F811
    """The kills without those that the failure does not need."""
    left = dict(kills)
    for write in sorted(kills):
        fewer = {each: done for each, done in left.items() if each != write}
        try:
            run_case(life, seed, fewer)
        except Exception:  # noqa: BLE001  # it fails without this kill too
            left = fewer
    return left


def test_any_kills_lose_and_double_nothing(life: Life) -> None:  # noqa: F811
    """Six drawn cases, or as many as ``KILL_CASES`` says; ``make chaos`` draws 420, about 1,000 kills."""
    first, count = int(os.environ.get("KILL_FIRST", "0")), int(os.environ.get("KILL_CASES", "6"))
    seeds = [int(os.environ["KILL_SEED"])] if "KILL_SEED" in os.environ else range(first, first + count)
    given = {int(n): done for n, done in json.loads(os.environ.get("KILL_AT", "{}")).items()} or None
    began, limit = time.monotonic(), float(os.environ.get("KILL_SECONDS", "1e9"))
    ran, happened, failed = 0, 0, []
    for seed in seeds:
        if time.monotonic() - began > limit:
            break
        ran += 1
        try:
            happened += run_case(life, seed, given)
        except Exception as error:  # noqa: BLE001  # all seeds run; those that fail are listed
            draw = random.Random(seed)  # noqa: S311
            draw.choice(GOLD)
            least = json.dumps(shrunk(life, seed, given or drawn_kills(draw)))
            failed.append(f"KILL_SEED={seed} KILL_AT='{least}': {type(error).__name__}: {str(error)[:300]}")
            print(failed[-1], flush=True)  # noqa: T201
        release_tables()
    print(f"{ran} cases from seed {seeds[0]}, {happened} kills, {len(failed)} failed", flush=True)  # noqa: T201
    assert failed == []
