"""The ``medallion`` command, also as ``python -m medallion``."""

from __future__ import annotations

import os
import signal
from types import FrameType

_INTERRUPTED = 130
_STDERR = 2


def main() -> None:
    """Load the command line and run it; Ctrl-C ends the seconds of loading without a traceback."""
    waits_for_interrupt = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if waits_for_interrupt:
        signal.signal(signal.SIGINT, _exit_at_once)
    from common.machine.stop_signals import interrupt
    from orchestration.cli.main import main as run_command

    if waits_for_interrupt:
        signal.signal(signal.SIGINT, interrupt)
    run_command()


def _exit_at_once(number: int, frame: FrameType | None) -> None:
    """End the process, which has opened nothing yet; an exception could be lost inside of an import."""
    os.write(_STDERR, b"interrupted\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
