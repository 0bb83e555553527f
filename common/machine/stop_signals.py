"""Signals that stop a job: SIGINT (Ctrl-C), SIGTERM (service managers), SIGHUP (its terminal was closed).

SIGHUP is left alone where it is ignored, as ``nohup`` has it: such a job is to survive its terminal.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_STANDARD_STREAMS = (0, 1, 2)
_interrupted = threading.Event()


def interrupt(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """Raise KeyboardInterrupt, as a handler of a signal; ``was_interrupted`` is true from now on."""
    _interrupted.set()
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether ``interrupt`` has ended what this process did; another error may be all that is seen of it."""
    return _interrupted.is_set()


def interrupt_with(cancel: Callable[[], object]) -> None:
    """Have SIGINT interrupt this process, and cancel its work in a thread.

    PySpark's own handler cancels Spark's jobs in the thread that the signal interrupts. Where that thread
    waits for an answer of the JVM, both calls would read it from one connection: the handler fails, and the
    command with it.
    """

    def quietly() -> None:
        with suppress(Exception):  # the session may end meanwhile
            cancel()

    def handle(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=quietly, name="cancel", daemon=True).start()
        interrupt()

    signal.signal(signal.SIGINT, handle)


@contextmanager
def handled(numbers: tuple[signal.Signals, ...], handler: Callable[[int], None]) -> Iterator[None]:
    """Call a function with the number of each of these signals inside the block.

    After SIGHUP the output to the closed terminal is discarded: each line would raise an error.
    """
    terminals = _open_terminals()

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _discard_output(terminals)
        handler(number)

    wanted = [n for n in numbers if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def hangup_ignored() -> Iterator[None]:
    """Have programs started inside the block ignore SIGHUP for good, as this process does inside the block.

    The kernel sends SIGHUP to all processes of a closed terminal. A job needs its JVM until the job has
    stopped. If the terminal is closed inside the block, this process gets its SIGHUP at the end of the block.
    Outside of the main thread, which alone can handle signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminals = _open_terminals()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        if terminals != _open_terminals():
            signal.raise_signal(signal.SIGHUP)


def _open_terminals() -> list[int]:
    return [stream for stream in _STANDARD_STREAMS if os.isatty(stream)]


def _discard_output(terminals: list[int]) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in terminals:
        os.dup2(nowhere, stream)
    os.close(nowhere)
