"""One at a time, in the order in which they come."""

from __future__ import annotations

import threading
import time

import pytest

from common.streaming.turns import Turns


def test_turns_are_given_one_at_a_time_in_order() -> None:
    turns, had = Turns(), list[int]()
    threads: list[threading.Thread] = []

    def take(number: int) -> None:
        with turns.take("silver.x"):
            had.append(number)
            time.sleep(0.01)

    with turns.take("silver.x"):
        for number in range(5):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            deadline = time.monotonic() + 10
            while len(turns._waiting["silver.x"]) < number + 2 and time.monotonic() < deadline:
                time.sleep(0.001)
            assert had == []
        assert had == []
        with turns.take("silver.y"):  # another query's
            pass
    for thread in threads:
        thread.join(10)
    assert had == [0, 1, 2, 3, 4]


def test_a_turn_ends_with_an_error() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="no"), turns.take_all(["b", "a", "b"]):
        raise ValueError("no")
    with turns.take("a"), turns.take("b"):
        pass
