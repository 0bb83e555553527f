"""Explains errors with which Spark, Delta and Kafka's client end a query: what happened, where, what to type.

Spark names neither table nor command, and for lost rows it advises options that skip them in silence. Each
known error is recognized by its class or error condition in the error's text. Texts that may quote a value of
a record are published without it (``without_values``): pages, state files and messages hold none.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from common.declare.author_texts import AuthorText
from common.errors import (
    BrokerAwayError,
    BrokerError,
    DiskFullError,
    ForeignChangeError,
    HistoryGoneError,
    MedallionError,
    QueryFailedError,
    RecordsGoneError,
    SourceReplacedError,
    StateChangedError,
    StateDamagedError,
    TableError,
    TableShapeError,
    TransientFailureError,
    first_line,
)

_VERSION_GONE = (
    "FILE_NOT_EXIST",
    "DELTA_FILE_NOT_FOUND",
    "VERSION_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
)


@dataclass(frozen=True, slots=True)
class FailedQuery:
    """The query whose error is explained."""

    name: str  # its table, such as ``silver.quakes``
    reads: tuple[str, ...] = ()  # the tables that it reads
    beside: tuple[str, ...] = ()  # the side tables that it writes
    checkpoint: str = ""  # path or URI of its checkpoint
    source: str = ""  # what a bronze query reads: ``Kafka at host:port``; empty for other queries
    texts: tuple[AuthorText, ...] = ()  # the SQL texts of its declaration
    declared_at: str = ""  # ``file:line`` of its declaration
    # Whether a micro-batch that has failed at a row is read to newer versions of its sources.
    heals: bool = False
    changes: str = ""  # what its declaration does with commits of its source that change rows; empty: nothing

    @property
    def is_gold(self) -> bool:
        """Whether ``medallion rebuild`` fills the query's table."""
        return self.name.startswith("gold.")

    @property
    def read(self) -> str:
        """What the query reads, in words."""
        return " and ".join(self.reads) or self.source or "its source"

    @property
    def broker(self) -> str:
        """The broker, in words."""
        return self.source or "The Kafka broker"

    @property
    def refill(self) -> str:
        """How to fill the query's table again from what its source has now."""
        if self.is_gold:
            return f"Fill the table again from the rows that are there: medallion rebuild {self.name}"
        if self.name.startswith("publish."):
            return f"Or move the checkpoint {self.checkpoint} away: the job then sends the table's rows again"
        return (
            "Or have it filled again from the rows that are there, and the gold tables that read it: "
            f"medallion recover {self.name}"
        )


def is_version_gone(text: str) -> bool:
    """Whether an error says that a version of a table cannot be read any more."""
    # CANNOT_READ_DELTA_FILE_NOT_EXISTS is of a file of the query's own state.
    return "CANNOT_LOAD_STATE_STORE" not in text and any(name in text for name in _VERSION_GONE)


def explain(query: FailedQuery, text: str) -> MedallionError | None:
    """The typed error for the text of a known error; ``None`` for any other text.

    Args:
        text: The error with all its causes, as Spark and Python print it.
    """
    for pattern, explained in _KNOWN:
        if (found := pattern.search(text)) is not None:
            return explained(query, found, text)
    return None


def _records_gone(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    outside = re.search(r"FetchPosition\{offset=(\d+)[^\n]* is out of range for partition (\S+)", text)
    reason = outside and f"Partition {outside[2]} has no offset {outside[1]} any more."
    reason = (
        reason
        or _first(text, r"Reason:\s*([^\n]*?\.)(?:\s|$)", r"(Cannot fetch (?:offset|records)[^\n.]*)")
        or "Some of them are gone."
    )
    return RecordsGoneError(
        query.name,
        f"{query.broker} no longer has records that {query.name} has not read. {_sentence(reason)} If "
        "retention has deleted them, they are lost: to write down which ones, and go on with the oldest "
        f"record that is left: medallion recover {query.name} --accept-gap. If the topic was deleted or "
        "created again, go on with the new one: "
        f"medallion recover {query.name} --new-topic NAME",
    )


def _topic_gone(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    return RecordsGoneError(
        query.name,
        f"{query.broker} has no such topic or partition any more ({_shown(found[0])}). If the topic was "
        f"deleted, create it and go on with the new one: medallion recover {query.name} --new-topic NAME. If "
        "this user may no longer see the topic, have its permission (ACL Describe, Read) restored",
    )


def _file_gone(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    named = (r"(?:reading file|\bFile) (\S+?)\.?(?: referenced|\s+File|\s*$)", r"(\S+\.parquet)(?!\.?\w)")
    file = _first(text, *named, r"path:?\s+(\S+)") or "a file"
    return HistoryGoneError(
        f"{query.name}: {query.read} has no longer the file {file}, which {query.name} has not read yet. "
        "VACUUM deletes a file some time after OPTIMIZE, DELETE or MERGE has replaced it. Restore the file "
        f"from a backup. {query.refill}."
    )


def _bits_changed(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    file = _first(text, r"(\S+\.parquet)") or "a file"
    known = (one for one in (*query.reads, query.name, *query.beside) if f"/{one.replace('.', '/')}/" in file)
    table = next(known, query.read)
    way = "" if table.startswith("bronze.") else f" {table.partition('__')[0]}"
    return TableError(
        f"{query.name}: bits of {file}, a file of {table}, have changed since it was written: a page of it "
        f"cannot be read, or does not have its checksum ({_shown(found[0])}). Nothing was written. Restore "
        "the file from a copy, and see to the disk or the memory of the machine. What can be done without "
        f"one: medallion recover{way} --plan"
    )


def _log_gone(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    wanted = _first(text, r"expecting process data from version (\d+)", r"[Vv]ersion (\d+)") or "?"
    oldest = _first(text, r"earliest available version[^\d]*(\d+)", r"\[(\d+), \d+\]")
    left = f"; the oldest that is left is {oldest}" if oldest else ""
    return HistoryGoneError(
        f"{query.name}: the log of {query.read} has no longer version {wanted}, which {query.name} has not "
        f"read yet{left}. Delta's log cleanup deletes versions older than delta.logRetentionDuration. "
        f"Restore the log from a backup. {_go_on(query)}."
    )


def _go_on(query: FailedQuery) -> str:
    """How a query goes on without commits of its source."""
    if not query.name.startswith("bronze."):
        return query.refill
    return (
        "Or go on after them: their rows are lost, and the audit names the versions: "
        f"medallion recover {query.name} --accept-gap"
    )


def _source_changed_rows(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    version = _first(text, r"at version (\d+)") or "?"
    what = "has deleted" if "DELETE" in found[0] else "has updated or deleted"
    said = f'changes="{query.changes}" takes none of these' if query.changes else "the declaration takes none"
    return ForeignChangeError(
        f"{query.name}: version {version} of {query.read} {what} rows, and {said}. "
        "Nothing of it was written. Say what such a commit does, and start again: "
        'changes="appends" skips it, changes="feed" has each change as a row (the source must keep a change '
        'data feed), changes="ignore_changes" reads rewritten rows again.'
    )


def _columns_replaced(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    return SourceReplacedError(query.name, query.read, query.checkpoint)


def _state_damaged(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    file = _first(text, r"(\S*/state/\d+/\d+\S*)", r"([^\s=]*/state\b\S*)") or f"{query.checkpoint}/state"
    return StateDamagedError(
        query.name,
        f"its state cannot be read: {file.strip(chr(39) + '(),;.')} is damaged or gone ({_shown(found[0])}). "
        f"Nothing was written. Restore the checkpoint {query.checkpoint} as a whole. {query.refill}",
    )


def _state_changed(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    variable = re.search(r"Cannot change (\S+) to (\S+) between [^.]*\. Please set \S+ to (\w+)", text)
    how = (
        f"{variable[1]} was a {variable[3]} and is a {variable[2]}" if variable else "columns or types differ"
    )
    return StateChangedError(
        query.name,
        f"it declares other state than the stored one: {how} ({_shown(found[0])}). Nothing was written. "
        f"Declare the state as it was, or begin with new state. {query.refill}",
    )


def _entry_damaged(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    file = _first(text, r"(\S*/(?:offsets|commits)/\d+)", r"(\S*/metadata)\b") or query.checkpoint
    return StateDamagedError(
        query.name,
        f"its checkpoint cannot be read: {file} is damaged ({_shown(found[0])}). Nothing was written. "
        f"Write it again by the table's commits: medallion recover {query.name}",
    )


def _disk_full(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    file = _first(text, r"((?:/[^\s/:()]+)+)[^\n]{0,40}(?:No space left on device|Disk quota exceeded)")
    place = f" {file}" if file else ""
    return DiskFullError(
        query.name,
        f"{found[0]}: the disk of the tables, the checkpoints or Spark's temporary files{place} is full. "
        "Make room and repeat the command: what is committed stays, and the interrupted micro-batch is "
        "replayed",
    )


def _not_writable(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    place = next(path for path in found.group(1, 4, 5, 6, 7) if path)
    named = next((why for why in found.group(2, 3, 8) if why), "")
    why = named or ("Permission denied" if found[6] else "a folder cannot be created")
    return QueryFailedError(
        query.name,
        f"the file system refuses {place} ({why}). Have the folder open to this user, and "
        "its disk mounted to be written; then start again: what is committed stays, and the interrupted "
        "micro-batch is replayed",
    )


def _too_many_files(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return QueryFailedError(
        query.name,
        f"the process may not open more files: ulimit -n is {soft} (at most {hard}). What is committed "
        "stays. Raise it, then start again: ulimit -n 8192; of a service: LimitNOFILE=8192",
    )


def _constraint(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    name = found[1] or "?"
    return TableShapeError(
        f"{query.name}: a row breaks the constraint {name} of the table, which the pipeline does not "
        "declare: another tool has added it. Nothing of the micro-batch is lost. Take the constraint away "
        f"(ALTER TABLE … DROP CONSTRAINT {name}), declare it as a rule of the table, and start again."
    )


def _no_permission(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    return BrokerError(
        f"{query.name}: {query.broker} refuses this user: {_sentence(found[1])} Grant the permission (an "
        "ACL: Describe and Read on the topic and its consumer groups medallion-…; Write where rows are "
        "published), or correct the login in kafka.options."
    )


def _login_refused(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    return BrokerError(
        f"{query.name}: {query.broker} refuses the login: {_sentence(found[1])} Correct sasl.mechanism, user "
        "and password in kafka.options."
    )


def _no_token(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    # The engine's own client got a token when the job started, so the cause may pass.
    answer = _first(text, r"(The response code \d+[^\n;]*?) was encountered") or _shown(found[0])
    return TransientFailureError(
        query.name,
        "the token endpoint",
        f"it gave no token to log in with at {query.source or 'the Kafka broker'} ({answer}). More is "
        "in Spark's log. Check that the endpoint can be reached from here, and "
        "sasl.oauthbearer.client.id, client.secret, scope and token.endpoint.url in kafka.options",
    )


def _no_tls(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    cause = _first(
        text,
        r"(No subject alternative [^\n]*|No name matching [^\n]*)",
        r"CertificateExpiredException: ([^\n]*)",
        r"(unable to find valid certification path[^\n]*)",
        r"SSLHandshakeException: ([^\n]*)",
    )
    return BrokerError(
        f"{query.name}: {query.broker} and this client do not agree on TLS: {_sentence(cause or found[1])} "
        "Check the certificates and host names: ssl.truststore.*, ssl.keystore.* and security.protocol in "
        "kafka.options."
    )


def _broker_away(query: FailedQuery, found: re.Match[str], text: str) -> MedallionError:
    return BrokerAwayError(
        f"{query.name}: {query.broker} does not answer ({_shown(found[0])}). Check that the broker runs and "
        "can be reached from here. Nothing is lost."
    )


_CLEANED_LOG = (
    r"DELTA_MISSING_FILES_UNEXPECTED_VERSION|DELTA_STREAMING_TRAILING_COMMIT_MISSING|DELTA_VERSION_NOT_FOUND|"
    r"DELTA_LOG_FILE\w*NOT_FOUND\w*|DELTA_TRUNCATED_TRANSACTION_LOG|expecting process data from version"
)
_DAMAGED_PAGE = (
    r"CRC checksum verification failed|is not a Parquet file|can not read class org\.apache\.parquet"
    r"|ParquetDecodingException"
)
REFUSED_FILE = (
    r"(/[^\s:()'\"]*)['\"]? \((Read-only file system|Permission denied)\)"  # of Java
    r"|\[Errno \d+\] (Read-only file system|Permission denied): '([^']*)'"  # of Python
    r"|Mkdirs failed to create (?:file:)?(/\S*)"  # of Hadoop, which does not say why
    r"|AccessDeniedException: (?:file:)?(/[^\s:]*)"  # of Java's newer classes
    r"|FileSystemException: (/[^\s:]*): (Read-only file system|Operation not permitted)"
)
"""A file that the file system refuses: of a disk that is read-only, or for want of permission."""
_Explained = Callable[[FailedQuery, re.Match[str], str], MedallionError]

_KNOWN: Iterable[tuple[re.Pattern[str], _Explained]] = tuple(
    (re.compile(pattern), explained)
    for pattern, explained in (
        (r"No space left on device|Disk quota exceeded", _disk_full),
        (REFUSED_FILE, _not_writable),
        (_DAMAGED_PAGE, _bits_changed),
        (r"Too many open files", _too_many_files),
        (r"DELTA_VIOLATE_CONSTRAINT\w*\](?:.*?CHECK constraint (\S+))?", _constraint),
        (r"SslAuthenticationException: ([^\n]*)", _no_tls),
        (r"SSLHandshakeException: ([^\n]*)", _no_tls),
        (r"SaslAuthenticationException: ([^\n]*)", _login_refused),
        (r"[^\n:]*retrieving token from callback handler", _no_token),
        (r"LoginException: [^\n]*\.oauthbearer\.[^\n]*", _no_token),
        (r"((?:Topic|Group|Cluster|TransactionalId)AuthorizationException: [^\n]*)", _no_permission),
        (r"Some data may have been lost because they are not available in Kafka any more", _records_gone),
        (r"LOST_TOPIC_PARTITIONS_IN_END_OFFSET\w*|have been lost during running query", _records_gone),
        (r"UnknownTopicOrPartitionException: [^\n]*", _topic_gone),
        (r"kafka\.common\.errors\.TimeoutException: [^\n]*", _broker_away),
        (
            r"\[?(?:CANNOT_LOAD_STATE_STORE|INVALID_CHANGE_LOG|STATE_STORE_\w*DOES_NOT_EXIST|STDS_FAILED_TO_READ)[\w.]*\]?",
            _state_damaged,
        ),
        (
            (
                r"\[?STATE_STORE_(?:(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|INVALID_VALUE_SCHEMA_EVOLUTION"
                r"|INVALID_VARIABLE_TYPE_CHANGE|COLUMN_FAMILY_SCHEMA_INCOMPATIBLE)\]?"
            ),
            _state_changed,
        ),
        (r"LZ4Exception|(?:Checksum|EOF|FileNotFound)Exception: [^\n]*/state/[^\n]*", _state_damaged),
        (r"Incomplete log file|[Ll]og file was malformed|UnrecognizedVersion[^\n]*", _entry_damaged),
        (r"FAILED_READ_FILE\.FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND\w*", _file_gone),
        (_CLEANED_LOG, _log_gone),
        (r"DELTA_STREAMING_(?:INCOMPATIBLE|CANNOT_CONTINUE\w*)_SCHEMA_CHANGE\w*", _columns_replaced),
        (r"DELTA_SOURCE_IGNORE_DELETE|DELTA_SOURCE_TABLE_IGNORE_CHANGES", _source_changed_rows),
    )
)
"""Errors by a part of their text, each with the function that explains it; the first that is found counts."""


def _first(text: str, *patterns: str) -> str | None:
    for pattern in patterns:
        if (found := re.search(pattern, text)) is not None:
            return found[1].strip()
    return None


def _shown(text: str, limit: int = 160) -> str:
    line = first_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _sentence(text: str) -> str:
    line = _shown(text, 240).rstrip(".")
    return f"{line}."


CONDITION = re.compile(r"\[([A-Z_][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
"""Spark's and Delta's name of an error condition."""

_STATE = re.compile(r"SQLSTATE: (\w{5})")

_OF_VALUES = ("21", "22", "23", "39", "P0")
"""Classes of SQLSTATE whose messages have values: of data, of constraints, of users' functions and errors."""

_WHOLE = {
    "DIVIDE_BY_ZERO": "Division by zero",
    "REMAINDER_BY_ZERO": "Remainder by zero",
    "INTERVAL_DIVIDED_BY_ZERO": "Division by zero",
    "MERGE_CARDINALITY_VIOLATION": "Several rows of the source match one row of the table",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": "More than one row returned by a subquery used as an expression",
    "NULL_MAP_KEY": "Null is no key of a map",
    "INVALID_ARRAY_INDEX": "An array has no element at this place",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "An array has no element at this place",
    "ARITHMETIC_OVERFLOW": "A number is too large for its type",
}
"""What conditions say whose messages have no values."""

_SAYS = (
    (
        re.compile(r'of the type ("[^"]+") cannot be cast to ("[^"]+")'),
        r"a value of the type \1 cannot be cast to \2",
    ),
    (
        re.compile(r'of the type ("[^"]+") [^"]*cannot be converted to ("[^"]+")'),
        r"a value of the type \1 is no \2",
    ),
    (re.compile(r'\) cannot be converted to ("[^"]+")'), r"a value cannot be converted to \1"),
    (re.compile(r"(CHECK constraint .{1,200}?) violated by row"), r"\1 is violated"),
    (re.compile(r"(NOT NULL constraint violated for column: [\w.`]+)"), r"\1"),
)
"""Parts of messages with values, and how they are said without."""

_FRAGMENT = re.compile(r"== SQL[^\n]*==\n([^\n]*)\n([ ]*)(\^+)")
"""The expression that failed, in the pipeline's SQL, underlined."""

_QUOTED = re.compile(r"""(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)"[^"\n]*"(?!\w)""")
_PLACE = re.compile(
    r"""^.(?:/|[a-z0-9+]+://|[\w.-]+:\d+.$|(?:spark|delta|kafka|sasl|ssl|fs|bronze|silver|gold|publish)\.|"""
    r"""(?:STRING|(?:TINY|SMALL|BIG)?INT|FLOAT|DOUBLE|BOOLEAN|DATE|TIMESTAMP(?:_NTZ)?|BINARY|VARIANT)"$|"""
    r"""(?:DECIMAL|ARRAY|MAP|STRUCT|INTERVAL)[(<\s])"""
)
"""What may be quoted: a path, a URI, host and port, the name of a setting or a table, a type."""

_VALUE_ERROR = re.compile(
    r"\b(?:Value|Key|Index|Unicode\w*|Overflow)Error: |\bArrow(?:Invalid|TypeError)|\bNumberFormatException|"
    r"\bDateTime\w*Exception|\bJson\w*Exception|\bInvalidOperation"
)
"""Errors that quote values, and no places."""

_OF_NAMES = re.compile(
    r"\b(?:(?:Name|Attribute|Import|ModuleNotFound|UnboundLocal|Syntax)Error"
    r"|medallion\.faults\.UnwritableException): [^\n]*"
)
"""Errors that quote names of a program or of a declared schema, and no values."""


def without_values(line: str, text: str = "") -> str:
    """An error's line for people without what it may quote of a record.

    Class of the error, types, the pipeline's own expression, paths, hosts and coordinates stay.

    Args:
        text: The whole text of the error, which may say more of the cause than the line.
    """
    conditions = list(CONDITION.finditer(line))
    for found in reversed(conditions):
        if found[1] in _WHOLE:
            return f"[{found[1]}] {_WHOLE[found[1]]}{_expression(text)}"
        if _is_of_values(found[1], text or line):
            rest = line[found.end() :]
            said = next((one.expand(says) for one, says in _said(rest)), "a value cannot be processed")
            return f"[{found[1]}] {said}{_expression(text)}"
    is_of_names = any(line in found for found in _OF_NAMES.findall(text))
    if is_of_names or any(state_of(found[1], text or line).startswith("42") for found in conditions):
        return line  # of the pipeline's text, which was not even started on a record
    is_value = _VALUE_ERROR.search(text) is not None
    return _QUOTED.sub(lambda one: "'…'" if is_value or not _PLACE.match(one[0]) else one[0], line)


def _said(message: str) -> Iterator[tuple[re.Match[str], str]]:
    return ((one, says) for pattern, says in _SAYS if (one := pattern.search(message)) is not None)


def _is_of_values(condition: str, text: str) -> bool:
    """Whether the message of a condition may have values, by its SQLSTATE; one without a state may."""
    state = state_of(condition, text)
    return not state or state.startswith(_OF_VALUES) or condition.startswith("INVALID_FORMAT")


def state_of(condition: str, text: str) -> str:
    """The SQLSTATE that a text gives for a condition; empty if it gives none."""
    begins = text.find(f"[{condition}]")
    state = _STATE.search(text, begins) if begins >= 0 else None
    return "" if state is None else state[1]


def _expression(text: str) -> str:
    found = _FRAGMENT.search(text)
    if found is None:
        return ""
    begin = len(found[2])
    return f": {found[1][begin : begin + len(found[3])]}"
