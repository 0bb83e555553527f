"""The ``medallion`` command within the test's own process: the real entry point, without seconds to start."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from orchestration.cli.main import main


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: object
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The one error that it ended with; neither Python's nor Java's stack is among its lines."""
        assert "Traceback" not in self.stderr
        assert "\tat " not in self.stderr
        (error,) = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        return error


def run(*words: str, settings: Sequence[str] = ()) -> Ended:
    """Run a command to its end, under ``--set`` texts; its output is what it would be in a file."""
    given = [part for text in settings for part in ("--set", text)]
    code: object = None
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["medallion", *words, *given])
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return Ended(code, out.getvalue(), err.getvalue())
