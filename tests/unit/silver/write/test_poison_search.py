"""The search for records that end the process: over any deaths it finds exactly these records."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from silver.write.poison_search import DEATHS, PARTS, OffsetRange, PoisonSearch

BATCH = 7
RANGES = (OffsetRange("orders", 0, 10, 40_009), OffsetRange("orders", 1, 0, 0))
Places = set[tuple[str, int, int]]


class Died(BaseException):
    """The process ends here; nothing after it runs."""


class World:
    """Processes that die of some records, one after the other."""

    def __init__(self, folder: Path, poison: Places) -> None:
        self.checkpoint, self.poison = str(folder / "checkpoint"), poison
        self.deaths, self.reads = 0, 0

    def _dies_of(self, part: OffsetRange, known: Places) -> bool:
        return any(
            (topic, partition) == (part.topic, part.partition) and part.first <= offset <= part.last
            for topic, partition, offset in self.poison - known
        )

    def start(self, *, marked: int = DEATHS, kill_at: int | None = None) -> PoisonSearch:
        """One process; dies of a poison record, or from outside at the read of that number."""
        search = PoisonSearch("silver.orders", self.checkpoint)

        def read(part: OffsetRange) -> None:
            self.reads += 1
            if self.reads == kill_at or self._dies_of(part, set(search.found)):
                raise Died

        search.run(BATCH, marked, lambda: RANGES, read, lambda: False)
        return search

    def live_on(self, kill_at: int | None = None) -> PoisonSearch:
        """Start processes until one survives the search."""
        for _ in range(500):
            try:
                return self.start(kill_at=kill_at)
            except Died:
                self.deaths += 1
        raise AssertionError("the search does not end")


OFFSETS = st.integers(min_value=10, max_value=40_009)
PLACES = st.sets(OFFSETS.map(lambda offset: ("orders", 0, offset)) | st.just(("orders", 1, 0)), max_size=4)


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(poison=PLACES, kill_at=st.none() | st.integers(min_value=1, max_value=150))
def test_all_poison_records_and_no_others_are_found(
    tmp_path_factory: pytest.TempPathFactory, poison: Places, kill_at: int | None
) -> None:
    """Also where one read is killed from outside."""
    world = World(tmp_path_factory.mktemp("search"), poison)
    assert set(world.live_on(kill_at).found) == poison


def test_processes_that_were_killed_from_outside_cost_one_read_per_partition(tmp_path: Path) -> None:
    world = World(tmp_path, set())
    assert world.start().found == ()
    assert world.reads == len(RANGES)


def test_one_record_of_40000_costs_six_processes(tmp_path: Path) -> None:
    """Each death but the first narrows the search by a factor of 32; the last two are of the record alone."""
    world = World(tmp_path, {("orders", 0, 31_234)})
    assert world.live_on().found == (("orders", 0, 31_234),)
    assert world.deaths == 6
    assert world.reads <= 6 * PARTS


def test_a_record_killed_once_alone_from_outside_is_no_poison(tmp_path: Path) -> None:
    world = World(tmp_path, set())
    with pytest.raises(Died):
        world.start(kill_at=len(RANGES))  # the record of partition 1 is read last, and alone
    assert world.start().found == ()
    assert world.deaths == 0


def test_fewer_deaths_than_three_search_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, {("orders", 0, 31_234)})
    assert world.start(marked=DEATHS - 1).found == ()
    assert world.reads == 0


def test_a_micro_batch_is_searched_again_after_three_further_deaths(tmp_path: Path) -> None:
    """The first search found nothing, as the records together ended the process."""
    world = World(tmp_path, set())
    world.start()
    once = world.reads
    world.start(marked=DEATHS + 2)
    assert world.reads == once
    world.start(marked=2 * DEATHS)
    assert world.reads == 2 * once


def test_an_error_of_a_process_that_lives_on_condemns_nothing(tmp_path: Path) -> None:
    search = PoisonSearch("silver.orders", str(tmp_path / "checkpoint"))

    def fail(part: OffsetRange) -> None:
        raise ValueError(str(part))

    for _ in range(5):
        with pytest.raises(ValueError, match="orders, partition 0, offset 10 to 40009"):
            search.run(BATCH, DEATHS, lambda: RANGES, fail, lambda: True)
        search = PoisonSearch("silver.orders", str(tmp_path / "checkpoint"))
    assert search.found == ()


def test_what_was_found_stays_known_in_later_micro_batches(tmp_path: Path) -> None:
    world = World(tmp_path, {("orders", 1, 0)})
    world.live_on()
    later = PoisonSearch("silver.orders", world.checkpoint)
    later.run(BATCH + 1, DEATHS, lambda: RANGES, lambda part: None, lambda: True)
    assert PoisonSearch("silver.orders", world.checkpoint).found == (("orders", 1, 0),)
