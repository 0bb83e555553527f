"""A process that ends inside a marked micro-batch leaves the mark, and the count of attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta.micro_batch import MicroBatch
from common.errors import DiskLowError, RowFailedError
from common.streaming.attempt_mark import AttemptMark, EarlierAttempts, attempt

LIMITS = DriverLimits(rows=10)


class KilledError(BaseException):
    """Stands for the end of the process: nothing of the engine runs after it."""


def batch(number: int, *, is_first: bool = True) -> MicroBatch:
    return MicroBatch("shop", "bronze.orders", "q", number, (), is_first=is_first)


def killed_inside(folder: Path, number: int, *, is_first: bool = True, is_marked: bool = False) -> MicroBatch:
    """Run a micro-batch whose process ends inside it; how the body saw the batch."""
    inside = attempt(AttemptMark(str(folder)), batch(number, is_first=is_first), lambda: False)
    seen = inside.__enter__()
    if is_marked:
        seen.mark_attempt()
    return seen


def test_an_attempt_that_ended_its_process_is_counted_at_the_next_one(tmp_path: Path) -> None:
    seen = [killed_inside(tmp_path, 7) for _ in range(3)]
    assert [one.was_attempted for one in seen] == [False, True, True]
    assert [one.limits(LIMITS) for one in seen] == [LIMITS, NO_DRIVER, NO_DRIVER]
    assert AttemptMark(str(tmp_path)).earlier(7) == EarlierAttempts(ended_processes=3)
    assert AttemptMark(str(tmp_path)).earlier(8) == EarlierAttempts()


def test_a_body_that_ends_leaves_no_mark(tmp_path: Path) -> None:
    killed_inside(tmp_path, 7)
    with attempt(AttemptMark(str(tmp_path)), batch(7), lambda: True) as seen:
        assert seen.was_attempted
    assert not list(tmp_path.iterdir())


def test_only_the_first_batch_of_a_run_and_the_largest_are_marked(tmp_path: Path) -> None:
    killed_inside(tmp_path, 7, is_first=False)
    assert not list(tmp_path.iterdir())
    assert not killed_inside(tmp_path, 7).was_attempted
    killed_inside(tmp_path, 8, is_first=False, is_marked=True)
    assert killed_inside(tmp_path, 8).was_attempted


def test_after_an_error_of_the_body_the_next_attempt_is_sparks_and_no_process_has_ended(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(RuntimeError),
        attempt(AttemptMark(str(tmp_path)), batch(7, is_first=False), lambda: True),
    ):
        raise RuntimeError
    assert AttemptMark(str(tmp_path)).earlier(7) == EarlierAttempts(has_raised=True)
    with pytest.raises(DiskLowError), attempt(AttemptMark(str(tmp_path)), batch(7), lambda: True):
        raise DiskLowError("bronze.orders", "full")
    assert not list(tmp_path.iterdir()), "an error of the engine says nothing about the way"


def test_a_batch_that_ended_the_jvm_has_ended_a_process(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), attempt(AttemptMark(str(tmp_path)), batch(7), lambda: False):
        raise RuntimeError
    assert AttemptMark(str(tmp_path)).earlier(7) == EarlierAttempts(ended_processes=1)


def test_a_mark_that_cannot_be_written_leaves_the_batch_to_spark(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()  # no folder can be there
    with attempt(AttemptMark(str(tmp_path / "checkpoint")), batch(7), lambda: True) as seen:
        assert seen.was_attempted


def test_a_torn_mark_counts_as_none(tmp_path: Path) -> None:
    for content in ("", "{", "[]", '{"batch_id": 7}', '{"batch_id": 7, "attempts": null}'):
        (tmp_path / "attempt").write_text(content)
        assert AttemptMark(str(tmp_path)).earlier(7) == EarlierAttempts(), content


def test_a_row_that_makes_a_statement_fail_is_known_to_the_next_attempt_at_the_batch_alone(
    tmp_path: Path,
) -> None:
    mark = AttemptMark(str(tmp_path))
    with pytest.raises(RowFailedError), attempt(mark, batch(7), lambda: True):
        raise RowFailedError("gold.q", "Division by zero")
    with attempt(AttemptMark(str(tmp_path)), batch(8), lambda: True) as other:
        assert not other.failed_at_row
    mark.fail(7, EarlierAttempts(), at_row=True)
    with attempt(AttemptMark(str(tmp_path)), batch(7), lambda: True) as again:
        assert (again.failed_at_row, again.limits(LIMITS)) == (True, NO_DRIVER)
    assert mark.earlier(7) == EarlierAttempts()
