"""Every error that the engine raises on purpose, in one tree.

MedallionError                  exit 1, the base class; never raised itself
├── UsageError                  exit 2: what the user wrote must change
│   ├── SettingsError           a setting is unknown, of the wrong type or out of range
│   ├── SqlError                a SQL expression cannot be parsed
│   ├── PipelineError           the pipeline file is wrong; holds every problem found
│   └── CaseError               a case of a pipeline's own tests is wrong; holds every problem found
├── SetupError                  the machine lacks something the engine needs
│   ├── JavaError               no usable Java 17 or 21
│   ├── JarError                a jar is missing, altered, or cannot be fetched
│   ├── BrokerError             the embedded broker cannot start or stop, or a broker cannot be reached
│   │   └── BrokerAwayError     the broker does not answer a query; the query waits and retries
│   └── AddressError            the address of the page and the metrics cannot be listened at
├── TableError                  a table or checkpoint is not what the job expects
│   ├── TableMissingError       a table that must exist does not
│   ├── TableShapeError         a table has other columns than the pipeline declares
│   ├── HistoryGoneError        the log no longer has all commits that a query must read
│   ├── CheckpointMismatchError a checkpoint and a table do not belong together
│   ├── TopicChangedError       a topic is not the one that bronze has read
│   ├── ForeignChangeError      another program changed rows of a table that a stream reads
│   └── CatalogError            a catalog has another table of this name; a warning, which ends nothing
├── QueryFailedError            a streaming query failed; names the query and the cause
│   ├── SourceChangedError      the query's source table has new columns; the query restarts with them
│   ├── SourceReplacedError     the columns of the query's source table were replaced; it cannot be read on
│   ├── TransientFailureError   the broker, a store or the network does not answer; the query restarts
│   ├── StatementRefusedError   Spark refuses a statement, an expression or an option of the query's table
│   ├── RowFailedError          a row makes a statement or an expression of the query's table fail
│   ├── TablesFailedError       several tables of a run have failed, or some wait for one; the others went on
│   ├── RuleFailedError         a row broke a rule with on_fail="fail"
│   ├── ChangeRefusedError      a change feed has an unknown operation, such as a truncation
│   ├── UnknownFieldError       a value has an unknown field under unknown_fields="fail"
│   ├── RecordsGoneError        Kafka no longer has records that bronze has not read
│   ├── StateDamagedError       a file of the query's checkpoint is damaged or gone
│   ├── StateChangedError       the query's state was written with another schema than it is declared with
│   ├── DiskFullError           a disk is full
│   ├── DiskLowError            too little space is free for a micro-batch; the query waits and retries
│   └── OutOfMemoryError        the heap of Spark's JVM was full, and the JVM ended
├── RegistryError               the schema registry does not answer; the query waits and retries
├── AccountError                the audit found lost, duplicated or miscounted offsets
├── ReconciliationError         a table differs from the source that it was compared with
├── QualityFailedError          exit 3: a quality suite failed
├── LeaseHeldError              exit 4: another process is writing the table
├── LeaseLostError              exit 4: another process has taken the table over from this one
└── CasesFailedError            exit 5: a case of a pipeline's own tests failed

A message says what happened, where, and what to do next. It never contains a payload, a key or a row, only
coordinates. Faults in data are no exceptions: such rows are quarantined, with reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from typing import Self

_SHOWN = 12
"""Most names that a message lists before ``…``."""


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known word most like a word, however it is written in capitals; empty if none is like it."""
    names = {name.lower(): name for name in sorted(set(known), reverse=True)}
    near = get_close_matches(word.lower(), sorted(names), n=1, cutoff=cutoff)
    return names[near[0]] if near else ""


def _near(word: str, names: list[str]) -> list[str]:
    """The known word most like a word, and another one that is as like; none where none is."""
    best = closest(word, names)
    if not best:
        return []
    other = closest(word, [name for name in names if name != best])
    likes = [SequenceMatcher(None, word.lower(), each.lower()).ratio() for each in (best, other)]
    return sorted([best, other]) if other and likes[1] >= likes[0] else [best]


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` with the known word most like a word, or the list of known words.

    Of two words that are equally like it, both are named.
    """
    names = sorted(set(known))
    if near := _near(word, names):
        return f"did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"known: {shown}" if names else "there are none"


def if_text(name: str) -> str:
    """What to type where a word of a condition is no column, but a text that was left without quotes."""
    return f"A text stands in quotes: '{name}'."


def first_line(error: object) -> str:
    """The first line of an error's text; empty where it has no text."""
    return str(error).strip().partition("\n")[0].rstrip()


UNNAMED = "MED-1000"
"""The code of a mistake that has none of its own."""


DOUBTFUL = "MED-1211"
"""The code of what is allowed and can hardly be meant: a warning."""


class Fault(str):  # noqa: SLOT000  # of a str with slots only a subclass has them
    """A sentence that says what is wrong with what the user wrote."""

    code: str  # the code of the mistake, of those in ``common.codes``
    source: str  # ``file:line:column`` of the word that is wrong; empty where only its declaration is known

    def __new__(cls, code: str, sentence: str, source: str = "") -> Self:
        made = super().__new__(cls, sentence)
        made.code, made.source = code, source
        return made

    def behind(self, words: str) -> Fault:
        """The same mistake, with words before its sentence."""
        return Fault(self.code, f"{words} {self}", self.source)


def as_fault(sentence: str, code: str) -> Fault:
    """The sentence with its own code, or with this one where it has none."""
    return sentence if isinstance(sentence, Fault) else Fault(code, sentence)


class MedallionError(Exception):
    """Base class of the engine's errors; never raised itself.

    Attributes:
        exit_code: Exit code of a command that ends by the error.
        retryable: Whether a query that failed by the error is restarted.
        cause_kind: Who has to do something: ``operator``: a person; ``data``: the sender of the rows;
            ``transient``: nobody, it passes; ``unknown``.
    """

    exit_code = 1
    retryable = False
    cause_kind = "operator"


class UsageError(MedallionError):
    """What the user wrote must change: an option, a setting, a pipeline."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type, or out of range.

    Attributes:
        problems: Each mistake, with where it is: the file with line and column, a variable, or a flag.
    """

    def __init__(self, message: str, problems: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems) or (Problem("settings", Fault("MED-1500", message)),)
        super().__init__(message)

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> Self:
        """The error of some mistakes, one a line."""
        found = tuple(problems)
        return cls("\n".join(f"{each.source}: {each.message}" for each in found), found)


class SqlError(UsageError):
    """A SQL expression cannot be parsed; the message begins with a verb, so that a place can precede it.

    Attributes:
        word: The word at which parsing fails; empty at the end of the text.
        at: Where in a statement the mistake begins, in characters from 0; None if that is not known.
    """

    def __init__(
        self, message: str, word: str = "", *, at: int | None = None, code: str = "MED-1201"
    ) -> None:
        self.word, self.at, self.code = word, at, code
        self.also: tuple[SqlError, ...] = ()
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a pipeline file."""

    place: str  # the declaration, as in ``silver.quakes, rule 'known'``
    message: str  # what is wrong with the declaration, and what to write instead
    # ``file:line`` of the declaration, or ``file:line:column`` of the word that is wrong; empty where neither
    # is known.
    source: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.message, Fault) and self.message.source:
            object.__setattr__(self, "source", self.message.source)

    @property
    def code(self) -> str:
        """The code of the mistake, such as ``MED-1202``."""
        return as_fault(self.message, UNNAMED).code

    def __str__(self) -> str:
        head = f"{self.source}: " if self.source else ""
        return f"{head}{self.place}: {self.message}"


class PipelineError(UsageError):
    """The pipeline file is wrong; ``problems`` holds every mistake found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class CaseError(UsageError):
    """A case of a pipeline's own tests is wrong; ``problems`` holds every mistake, with file and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SetupError(MedallionError):
    """The machine lacks something the engine needs."""


class MissingExtraError(SetupError):
    """Packages of an extra are not installed; the message has the command that installs them."""


class JavaError(SetupError):
    """No usable Java 17 or 21 was found."""


class JarError(SetupError):
    """A jar is missing, altered, or cannot be fetched."""


class BrokerError(SetupError):
    """The embedded broker cannot start or stop, or a broker cannot be reached."""


class BrokerStoppedError(BrokerError):
    """The embedded broker does not run, and is not started to be asked."""


class AddressError(SetupError):
    """The address of the page and the metrics is wrong, used by another process, or not of this machine."""


class BrokerAwayError(BrokerError):
    """The broker does not answer a running query; the query waits and tries again."""

    retryable = True
    cause_kind = "transient"


class StoreError(SetupError):
    """The object store with the tables does not answer, or refuses."""


class TableError(MedallionError):
    """A table or checkpoint is not what the job expects."""


class CatalogError(TableError):
    """A catalog has another table under the name of one of the engine's; never ends a job."""


class TableMissingError(TableError):
    """A table that must exist does not."""

    def __init__(self, table: str, path: str, advice: str = "") -> None:
        self.table, self.path = table, path
        advice = advice or "No micro-batch has written it; to fill it: medallion backfill, or medallion up."
        super().__init__(f"{table} does not exist yet (looked in {path}). {advice}")


class TableShapeError(TableError):
    """A table exists with other columns than the pipeline declares."""


class HistoryGoneError(TableError):
    """The log no longer has all commits, or the table all files, that a query must read."""


class CheckpointMismatchError(TableError):
    """A checkpoint and the table that its query writes do not belong together."""


class TopicChangedError(TableError):
    """A Kafka topic is gone, or is another one than bronze has read, though it has the same name."""


class ForeignChangeError(TableError):
    """Another program than the engine changed rows of a table that a stream reads."""


class QueryFailedError(MedallionError):
    """A streaming query failed.

    Attributes:
        query: The query's name, such as ``silver.quakes``.
        cause: The cause in one line.
    """

    cause_kind = "unknown"

    def __init__(self, query: str, cause: str) -> None:
        self.query, self.cause = query, cause
        super().__init__(f"{query} failed: {cause}")


class TransientFailureError(QueryFailedError):
    """A query failed for a cause that passes; the query restarts.

    Attributes:
        subject: What failed, such as ``the Kafka broker``.
    """

    retryable = True
    cause_kind = "transient"

    def __init__(self, query: str, subject: str, cause: str) -> None:
        self.subject = subject
        super().__init__(query, f"{subject}: {cause}")


class SourceChangedError(QueryFailedError):
    """The source table of a query has new columns; the query goes on once it is built again."""

    retryable = True


class SourceReplacedError(QueryFailedError):
    """Columns of the source table of a query were removed, renamed or got another type."""

    def __init__(self, query: str, source: str, checkpoint: str) -> None:
        is_publication, is_bronze = query.startswith("publish."), query.startswith("bronze.")
        super().__init__(
            query,
            f"the columns of {source} were replaced, and the query's checkpoint {checkpoint} is one of the "
            "former columns. "
            + (
                "Declare it again under another name, which begins with the version that has the new columns "
                "(starting_version=…)."
                if is_bronze
                else f"Nothing is sent twice or left out by now. To send all rows of {source} again, move "
                "the checkpoint away. To send only what comes from now on, declare it under a new "
                "name with reading=Reading(starting_version=…)."
                if is_publication
                else f"Fill the table again: medallion rebuild {query}."
            ),
        )


class StatementRefusedError(QueryFailedError):
    """Spark refuses a statement, an expression or an option of the query's table; nothing was written.

    Attributes:
        problems: The mistake with ``file:line:column`` of the part that is refused, as far as it is known.
    """

    cause_kind = "operator"

    def __init__(self, query: str, cause: str, source: str = "") -> None:
        super().__init__(query, cause)
        self.problems = (Problem(query, Fault("MED-4014", str(self), source)),)


class RowFailedError(QueryFailedError):
    """A row makes a statement or an expression of the query's table fail; nothing of its micro-batch was
    written.

    Attributes:
        problems: What fails, with ``file:line:column`` of the part of the text, as far as it is known.
        part: The part of the author's text that fails; empty where it is not known.
    """

    cause_kind = "data"

    def __init__(self, query: str, cause: str, source: str = "", part: str = "") -> None:
        super().__init__(query, cause)
        self.part = part
        self.problems = (Problem(query, Fault("MED-4015", str(self), source)),)


class TablesFailedError(QueryFailedError):
    """Several tables of a run have failed, or some wait for one that has; the others went on.

    Attributes:
        problems: One for each line of the message: the tables that have failed, then those that wait.
    """

    cause_kind = "operator"

    def __init__(self, tables: Iterable[str], told: Mapping[str, Problem]) -> None:
        """Tell of all of them.

        Args:
            told: The lines of the message, each with its problem.
        """
        self.problems = tuple(told.values())
        super().__init__(", ".join(tables), "; ".join(told))
        self.args = ("\n".join(told),)


class RuleFailedError(QueryFailedError):
    """A row broke a rule with ``on_fail="fail"``; nothing of its micro-batch was written."""

    cause_kind = "data"


class ChangeRefusedError(QueryFailedError):
    """A change feed has an unknown operation; nothing of its micro-batch was written."""

    cause_kind = "data"


class UnknownFieldError(QueryFailedError):
    """A value has a field that its schema does not have, under ``unknown_fields="fail"``."""

    cause_kind = "data"


class RecordsGoneError(QueryFailedError):
    """Kafka no longer has records, or a topic, that a bronze query has not read."""

    cause_kind = "operator"


class StateDamagedError(QueryFailedError):
    """A file of the query's checkpoint is damaged or gone; nothing of its micro-batch was written."""

    cause_kind = "operator"


class StateChangedError(QueryFailedError):
    """The query declares state of another kind or schema than the stored one; nothing was written."""

    cause_kind = "operator"


class DiskFullError(QueryFailedError):
    """A disk of the tables, of the checkpoints or of Spark's temporary files is full."""

    cause_kind = "operator"


class DiskLowError(QueryFailedError):
    """Less space is free than ``min_free_mb``; nothing of the micro-batch is written, the query waits."""

    retryable = True
    cause_kind = "transient"

    def __init__(self, query: str, shortage: str) -> None:
        super().__init__(
            query,
            f"{shortage} (the setting min_free_mb), so no micro-batch begins; nothing is lost. Make room: "
            "the query goes on by itself.",
        )


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
    """The schema registry cannot be reached, or its answer is no schema."""

    retryable = True
    cause_kind = "transient"


class AccountError(MedallionError):
    """The audit found offsets that are in no table, in two tables, or miscounted."""


class ReconciliationError(MedallionError):
    """A table and the source that it was compared with do not have the same rows."""


class QualityFailedError(MedallionError):
    """At least one quality suite failed."""

    exit_code = 3


class LeaseHeldError(MedallionError):
    """Another process is writing the table.

    Attributes:
        holder: Job, pid, host and start of the process that holds the lease, as far as known.
    """

    exit_code = 4

    def __init__(self, table: str, holder: str) -> None:
        self.table, self.holder = table, holder
        super().__init__(
            f"{table} is being written by {holder}. One table has one writer: "
            "stop that job first (Ctrl-C or SIGTERM ends it at a micro-batch boundary), then try again."
        )


class LeaseLostError(MedallionError):
    """The process no longer holds the table's lease: it was not renewed in time, or its file is gone.

    Attributes:
        holder: Job, pid and host of the new holder, as far as known.
    """

    exit_code = 4

    def __init__(
        self, table: str, holder: str, what: str = "this process did not renew its lease in time"
    ) -> None:
        self.table, self.holder = table, holder
        now = f"{holder} writes the table now" if holder else "another process may write the table"
        super().__init__(
            f"{table}: {what}, and {now}. This process writes nothing more. If it is to write again, end the "
            "other job first, if there is one, then start it."
        )


class CasesFailedError(MedallionError):
    """A case of a pipeline's own tests failed: a table has other rows than the case expects."""

    exit_code = 5
