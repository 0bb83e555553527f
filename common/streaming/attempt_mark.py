"""Marks a micro-batch that may end its process, so that the next start knows the micro-batch and the count.

The mark is the file ``attempt`` in the checkpoint of the query. It is written before the body of a
micro-batch and deleted after the body, so a process that ends inside the body leaves the mark. Spark ignores
a file of this name.

Two kinds of micro-batches are marked: the first one after a start, which is the one that ended the last
process if any micro-batch did, and one with more rows than every one before it in the same process. A job
that is killed from outside, most often inside some other micro-batch, leaves no mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from common.delta.micro_batch import MicroBatch
from common.errors import MedallionError, RowFailedError
from common.machine.files.state_file import StateFile
from common.machine.storage_folder import StorageFolder

_NAME = "attempt"


@dataclass(frozen=True, slots=True)
class EarlierAttempts:
    """What the mark says of a micro-batch."""

    ended_processes: int = 0  # how many marked attempts at the micro-batch ended with their process
    has_raised: bool = False  # whether the newest attempt raised an error, and the process lived on
    failed_at_row: bool = False  # whether that error was that a row makes a statement fail

    def __bool__(self) -> bool:
        return self.ended_processes > 0 or self.has_raised


@dataclass(frozen=True, slots=True)
class _Mark:
    batch_id: int
    attempts: int
    has_raised: bool = False
    failed_at_row: bool = False


_FILE = StateFile(_Mark)


class AttemptMark:
    """The mark of one query; used by the one process that runs the query.

    A mark that cannot be written or deleted raises no error: what is wrong with the folder fails in Spark's
    own writes to the checkpoint, with an error that names the cause.
    """

    def __init__(self, checkpoint: str) -> None:
        self._folder = StorageFolder(checkpoint)
        self._may_exist = True
        """Whether there may be a mark: the process before this one may have left one."""

    def earlier(self, batch_id: int) -> EarlierAttempts:
        """The earlier attempts at a micro-batch: none where the mark is another micro-batch's, or torn."""
        known = _FILE.read_or_none(self._folder, _NAME)
        if known is None or known.batch_id != batch_id:
            return EarlierAttempts()
        return EarlierAttempts(known.attempts, known.has_raised, known.failed_at_row)

    def begin(self, batch_id: int, earlier: EarlierAttempts) -> bool:
        """Write the mark of one more attempt; returns whether the mark is there."""
        return self._write(_Mark(batch_id, earlier.ended_processes + 1))

    def fail(self, batch_id: int, earlier: EarlierAttempts, *, at_row: bool = False) -> bool:
        """Mark a micro-batch whose body raised an error: the attempt has ended no process."""
        return self._write(_Mark(batch_id, earlier.ended_processes, has_raised=True, failed_at_row=at_row))

    def end(self) -> None:
        """Delete the mark: the body has ended. Costs nothing where there is none."""
        if self._may_exist:
            with suppress(OSError):
                self._folder.delete(_NAME)
                self._may_exist = False

    def _write(self, content: _Mark) -> bool:
        self._may_exist = True
        try:
            _FILE.write(self._folder, _NAME, content)
        except OSError:
            return False
        return True


@contextmanager
def attempt(mark: AttemptMark, batch: MicroBatch, jvm_answers: Callable[[], bool]) -> Iterator[MicroBatch]:
    """Run the body of a micro-batch inside the block, marked where it may end the process.

    An error of the engine leaves no mark, but for a row that makes a statement fail. After any other error
    the next attempt is Spark's.

    Args:
        batch: The batch as the query knows it.
        jvm_answers: Whether Spark's JVM lives. A batch that ended the JVM keeps its mark.

    Yields:
        The batch with what the mark says of it.
    """
    earlier = mark.earlier(batch.batch_id) if batch.is_first else EarlierAttempts()
    is_guarded = mark.begin(batch.batch_id, earlier) if batch.is_first else True
    try:
        yield replace(
            batch,
            was_attempted=bool(earlier) or not is_guarded,
            failed_at_row=earlier.failed_at_row,
            mark_attempt=lambda: batch.is_first or mark.begin(batch.batch_id, earlier),
        )
    except RowFailedError:
        mark.fail(batch.batch_id, earlier, at_row=True)
        raise
    except MedallionError:
        mark.end()
        raise
    except BaseException:
        if jvm_answers():
            mark.fail(batch.batch_id, earlier)
        raise
    mark.end()
