"""Operators that run the ``medallion`` command; its exit code decides how a task ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

_USAGE, _QUALITY, _LEASE, _CASE = 2, 3, 4, 5
_STOP_SECONDS = 90
_ERROR = "error:"


class _Lines:
    """Reads what a process prints, in two threads: stderr is logged line by line, stdout is kept.

    Attributes:
        output: Stdout, once the block has ended.
        last: The error that stderr ends with, else its last line that says something.
    """

    def __init__(self, process: subprocess.Popen[str], log: Any) -> None:
        self.output, self.last = "", ""
        self._process, self._log = process, log
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._keep, self._report)]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until all is read."""
        for thread in self._threads:
            thread.join()

    def _keep(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  # it is a pipe
        self.output = self._process.stdout.read()

    def _report(self) -> None:
        assert self._process.stderr is not None  # noqa: S101  # it is a pipe
        for line in self._process.stderr:
            if text := line.strip():
                # The lines below an error say its code and what to do.
                if text.startswith(_ERROR) or not self.last.startswith(_ERROR):
                    self.last = text
                self._log.info("%s", text)


class MedallionOperator(BaseOperator):  # type: ignore[misc]  # Airflow is not installed where types are checked
    """Runs one ``medallion`` command.

    =========  =====================================  ==============================================
    exit code  the command                            the task
    =========  =====================================  ==============================================
    0          has done its work                      succeeds
    2          was refused: pipeline or settings      fails, and is not retried
    3          found that a quality suite failed      fails, and is not retried: the data is the same
    4          found that another job writes a table  is skipped: that job does the work
    5          found a failing case                   fails, and is not retried
    other      failed, or was killed                  fails, and is retried as ``retries`` says
    =========  =====================================  ==============================================

    A task that is cancelled sends SIGTERM: the command stops at a micro-batch boundary.

    Args:
        words: The command's words, such as ``["quality", "run"]``.
        command: The words that start ``medallion``.
        arguments: Options that follow.
        env: Environment variables besides those of the worker.
    """

    template_fields = ("words", "arguments", "env")
    ui_color = "#e8f3ec"

    def __init__(
        self,
        *,
        words: Sequence[str] = (),
        command: Sequence[str] = ("medallion",),
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.words, self.command, self.arguments = list(words), list(command), list(arguments)
        self.env = dict(env or {})
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Any) -> None:
        """Run the command; its lines are lines of the task's log."""
        self.run_command(self.words, shows_output=True)

    def run_command(self, words: Sequence[str], *, shows_output: bool = False) -> str:
        """Run a command and return what it printed on stdout, which is logged where it is a result to read.

        Raises:
            AirflowException: It failed; a retry may help.
            AirflowFailException: It failed, and will fail again.
            AirflowSkipException: Another job writes the tables.
        """
        line = [*self.command, *words, *self.arguments]
        self.log.info("running %s", " ".join([*self.command, *words]))
        variables = {**os.environ, "NO_COLOR": "1", **self.env}
        # The worker's own packages are not the command's.
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            if name not in self.env:
                variables.pop(name, None)
        try:
            self._process = subprocess.Popen(  # the words are those of the DAG
                line, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise AirflowFailException(
                f"{line[0]} cannot be started ({error.strerror}): give build_dag the path of the medallion "
                'command, as in command="/opt/medallion/bin/medallion"'
            ) from error
        lines = _Lines(self._process, self.log)
        lines.start()
        code = self._process.wait()
        lines.join()
        for printed in lines.output.splitlines() if shows_output else ():
            self.log.info("%s", printed)
        self._judge(code, lines.last)
        return lines.output

    def _judge(self, code: int, last: str) -> None:
        what = f"medallion {self.task_id} ended with exit code {code}: {last}"
        if code == _LEASE:
            raise AirflowSkipException(f"another job writes the tables: {last}")
        if code in {_USAGE, _QUALITY, _CASE}:
            raise AirflowFailException(what)
        if code:
            raise AirflowException(what)

    def on_kill(self) -> None:
        """Stop the command at a micro-batch boundary."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)


class FreshnessOperator(MedallionOperator):
    """Fails if a record has waited too long to be in a table; a retry looks again.

    Args:
        limit_seconds: Age of the oldest Kafka record that a table lacks.
    """

    def __init__(self, *, limit_seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self.limit_seconds = limit_seconds

    def execute(self, context: Any) -> None:
        """Read the status of the pipeline and compare each table.

        Raises:
            AirflowException: A table lacks an older record, or no table's age is known.
        """
        found = waiting(json.loads(self.run_command(["status", "--json"])))
        unknown = ", ".join(sorted(table for table, seconds in found.items() if seconds is None))
        if unknown or not found:
            raise AirflowException(f"how old {unknown or 'each table'} is, is not known: is the broker up?")
        late = {table: age for table, age in found.items() if age is not None and age > self.limit_seconds}
        if late:
            shown = ", ".join(f"{table} {seconds:.0f} s" for table, seconds in sorted(late.items()))
            raise AirflowException(f"older than {self.limit_seconds:.0f} s: {shown}")
        self.log.info("%d tables are within %.0f s", len(found), self.limit_seconds)


def waiting(status: Mapping[str, Any]) -> dict[str, float | None]:
    """Age of the oldest record that each table lacks, from ``medallion status --json``; None: not known."""
    return {
        str(table["table"]): table["freshness"]["waiting_seconds"]
        for table in status["tables"]
        if table.get("freshness") is not None
    }
