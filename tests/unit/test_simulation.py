"""Lives in the simulated world end right, or are refused in words: nothing is lost or doubled unseen."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.chance import one_life
from tests.simulation.lives import LIVES, end
from tests.simulation.world import RESTORED, World, table

STEPS = int(os.environ.get("SIMULATED_STEPS", "40000"))
"""Steps of drawn lives; a step is a change of the disk, or something that happens to the job."""

FIRST = int(os.environ.get("SIMULATED_SEED", "1"))


@pytest.mark.parametrize("name", LIVES)
def test_a_told_life_is_refused_at_once_and_by_the_next_start(name: str) -> None:
    world = World(1)
    with world.entered():
        LIVES[name](world)
        assert world.refusal is not None, "\n".join(world.events)
        assert end(world) in {"refused", "right"}, "\n".join(world.events)


@pytest.mark.parametrize("name", RESTORED)
def test_a_frozen_job_whose_lock_files_are_deleted_commits_nothing_more(name: str) -> None:
    """Another job has written what it was about to write; the frozen one finds its lease lost and ends."""
    world = World(1)
    with world.entered():
        world.produce(20)
        world.start()
        world.at_write(table(name), world.freeze)
        world.settle()
        assert any(each.startswith("ended: ") for each in world.events), "\n".join(world.events)
        assert end(world) == "right", "\n".join(world.events)


def test_drawn_lives_end_refused_or_right() -> None:
    steps, seed, verdicts = 0, FIRST, Counter[str]()
    while steps < STEPS:
        verdict, world = one_life(seed)
        assert verdict in {"refused", "right", "open"}, f"seed {seed}: {verdict}\n" + "\n".join(world.events)
        steps, seed = steps + world.steps, seed + 1
        verdicts[verdict] += 1
    assert verdicts["refused"]
    assert verdicts["right"] > 20 * verdicts["open"]
