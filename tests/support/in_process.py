"""Runs ``medallion`` commands in the test's own process, by the real entry point: no process to start."""

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
        """The one error line of stderr, which contains no stack trace of Python or Java."""
        assert "Traceback" not in self.stderr
        assert "\tat " not in self.stderr
        (error,) = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        return error


def run(*words: str, settings: Sequence[str] = ()) -> Ended:
    """Run a command to its end, with ``--set`` texts; it prints as it would into a file."""
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
