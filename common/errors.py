"""Everything the engine raises on purpose, in one tree.

MedallionError                  exit 1, the base; never raised itself
├── UsageError                  exit 2: what the user wrote must change
│   ├── SettingsError           a setting is unknown, of the wrong type or out of range
│   ├── SqlError                a SQL expression cannot be read
│   └── PipelineError           the pipeline file is wrong; carries every problem found
├── SetupError                  the machine lacks something the engine needs
│   ├── JavaError               no usable Java 17 or 21
│   ├── JarError                a jar is missing, altered, or cannot be fetched
│   └── BrokerError             the embedded broker cannot start, or a broker cannot be reached
├── TableError                  a table or checkpoint is not what the job expects
│   ├── TableMissingError       a table that must exist does not
│   ├── TableShapeError         a table exists with other columns than the pipeline declares
│   ├── HistoryGoneError        the commits a first load must read are no longer all there
│   ├── CheckpointMismatchError a checkpoint and a table do not belong together
│   └── ForeignChangeError      someone else changed rows of a table that a stream reads
├── QueryFailedError            a streaming query died; names the query and the cause
│   ├── SourceChangedError      the table it reads has new columns; it starts again with them
│   ├── RuleFailedError         a row broke a rule that is declared to stop the query
│   ├── ChangeRefusedError      a change of a change feed is of no known kind, such as a truncation
│   ├── UnknownFieldError       a value has a field that the pipeline is declared to stop at
│   └── OutOfMemoryError        the heap of Spark's JVM was full, and the JVM ended
├── RegistryError               the schema registry does not answer; the query waits and tries again
├── AccountError                the audit found offsets that are nowhere, or in two places
├── QualityFailedError          exit 3: a quality suite failed
└── LeaseHeldError              exit 4: another process is writing the table

A message says what happened, where, and what to do next. It never holds a payload, a key or a row:
coordinates only. Data faults are not exceptions; they are quarantined rows with reasons.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

_SHOWN = 12
"""Names in a message, before it says that there are more."""


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` for the nearest known word, or the list of what is known."""
    names = sorted(set(known))
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "there are none"
    shown = ", ".join(names[:_SHOWN])
    return f"known: {shown}{', …' if len(names) > _SHOWN else ''}"


class MedallionError(Exception):
    """Base of every deliberate error; never raised itself."""

    exit_code = 1
    retryable = False


class UsageError(MedallionError):
    """A command was called with something it cannot use."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type, or out of range."""


class SqlError(UsageError):
    """A SQL expression cannot be read; the message begins with its verb.

    Attributes:
        word: The word at which it stops making sense; empty where that is its end.
    """

    def __init__(self, message: str, word: str = "") -> None:
        self.word = word
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a pipeline file.

    Attributes:
        place: What is wrong, as its user would point at it: ``silver.quakes, rule 'known'``.
        message: What is wrong there, and what to write instead.
        source: ``file:line`` of the declaration, or empty where it is not known.
    """

    place: str
    message: str
    source: str = ""

    def __str__(self) -> str:
        head = f"{self.source}: " if self.source else ""
        return f"{head}{self.place}: {self.message}"


class PipelineError(UsageError):
    """The pipeline file is wrong; ``problems`` holds every mistake that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SetupError(MedallionError):
    """The machine lacks something the engine needs."""


class JavaError(SetupError):
    """No usable Java 17 or 21 was found."""


class JarError(SetupError):
    """A jar is missing, altered, or cannot be fetched."""


class BrokerError(SetupError):
    """The embedded broker cannot start or stop, or a broker cannot be reached."""


class TableError(MedallionError):
    """A table or checkpoint is not what the job expects."""


class TableMissingError(TableError):
    """A table that must exist does not."""

    def __init__(self, table: str, path: str, advice: str) -> None:
        self.table, self.path = table, path
        super().__init__(f"{table} does not exist yet (looked in {path}). {advice}")


class TableShapeError(TableError):
    """A table exists with other columns than the pipeline declares."""


class HistoryGoneError(TableError):
    """The commits that a first load in commit order must read are no longer all there."""


class CheckpointMismatchError(TableError):
    """A checkpoint and the table it feeds do not belong together."""


class ForeignChangeError(TableError):
    """Rows of a table that a stream reads were changed by someone else than the engine."""


class QueryFailedError(MedallionError):
    """A streaming query died.

    Attributes:
        query: The query's name, such as ``silver.quakes``.
        cause: The cause in one line.
    """

    def __init__(self, query: str, cause: str) -> None:
        self.query, self.cause = query, cause
        super().__init__(f"{query} failed: {cause}")


class SourceChangedError(QueryFailedError):
    """The columns of the table that a query reads changed; it goes on once it is made anew."""

    retryable = True


class RuleFailedError(QueryFailedError):
    """A row broke a rule that is declared with ``on_fail="fail"``; nothing of its micro-batch was written."""


class ChangeRefusedError(QueryFailedError):
    """A change feed has a change of no known kind; nothing of its micro-batch was written."""


class UnknownFieldError(QueryFailedError):
    """A value has a field that its schema does not name, under ``unknown_fields="fail"``."""


class OutOfMemoryError(QueryFailedError):
    """The heap of Spark's JVM was full; the JVM ended, and every query with it.

    Attributes:
        heap: The size of the heap, as ``spark.driver_memory`` has it.
    """

    def __init__(self, heap: str) -> None:
        self.heap = heap
        super().__init__(
            "Spark's JVM",
            f"its heap of {heap} was full, so it ended. Set spark.driver_memory higher, or have a "
            "micro-batch take less: lower driver.batch_mb, bronze.max_offsets_per_trigger, "
            "silver.max_files_per_trigger or gold.max_files_per_trigger. Nothing is lost: the same command "
            "goes on, and replays the micro-batches that were running",
        )


class RegistryError(MedallionError):
    """The schema registry cannot be reached, or answers with something else than a schema."""

    retryable = True


class AccountError(MedallionError):
    """The audit found offsets that are nowhere, in two places, or counted otherwise than they are."""


class QualityFailedError(MedallionError):
    """At least one quality suite failed."""

    exit_code = 3


class LeaseHeldError(MedallionError):
    """Another process is writing the table.

    Attributes:
        table: The table whose lease is held.
        holder: Who holds it: job, pid, host and start, as far as is known.
    """

    exit_code = 4

    def __init__(self, table: str, holder: str) -> None:
        self.table, self.holder = table, holder
        super().__init__(
            f"{table} is being written by {holder}. One table has one writer: "
            "stop that job first (Ctrl-C or SIGTERM ends it at a micro-batch boundary), then try again."
        )
