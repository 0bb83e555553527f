"""Why a query failed: for a transient cause, by its data, or by something that a person has to change.

The kind decides what happens to the query: a query that failed for a transient cause is restarted, because
the same micro-batch succeeds once the cause is gone. All others fail again at every restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from common.spark import jvm

Kind = Literal["transient", "data", "operator", "unknown"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a query failed."""

    # ``transient``: it passes by itself; ``data``: rows that the declaration cannot process; ``operator``: a
    # person has to change something; ``unknown``: anything else.
    kind: Kind
    subject: str = ""  # what failed, such as ``the Kafka broker``; empty if it is not known


@dataclass(frozen=True, slots=True)
class Fault:
    """One error of a chain of causes: names of its class and superclasses, and its message."""

    classes: tuple[str, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Errors of one cause."""

    cause: Cause
    # Names of classes, subclasses included; a name without a dot stands for a class of any package. Empty:
    # every class.
    classes: frozenset[str]
    message: str = ""  # a regular expression that the message must contain; empty: any message

    def matches(self, fault: Fault) -> bool:
        """Whether an error is one of this case."""
        names = {*fault.classes, *(name.rpartition(".")[2] for name in fault.classes)}
        is_of_class = not self.classes or not self.classes.isdisjoint(names)
        return is_of_class and (not self.message or re.search(self.message, fault.message) is not None)


BROKER, REGISTRY, NETWORK = "the Kafka broker", "the schema registry", "the network"
OBJECT_STORE, CONFLICT = "the object store", "a conflict of commits"
EXPIRED = "expired credentials of the object store"


def _case(kind: Kind, subject: str, classes: str = "", message: str = "") -> Case:
    return Case(Cause(kind, subject), frozenset(classes.split()), message)


_OVERLOADED = (
    r"(?i)\b(429|500|502|503|504)\b|SlowDown|throttl|too many requests|please reduce your request rate|"
    r"InternalError|OperationAborted|not read from or written to within the timeout"
)
"""Words of an object store that asks its clients to come back later."""

_STORE_CLIENTS = "builtins.OSError obstore.exceptions.BaseError deltalake.exceptions.DeltaError"
"""What pyarrow, obstore and delta-rs raise; each for an error of any kind, which only its message tells."""

_AWAY = (
    # pyarrow, which knows some errors of a store by name, and of a request without a body the status only.
    r"AWS Error (?:INTERNAL_FAILURE|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|NETWORK_CONNECTION|"
    r"REQUEST_TIMEOUT)|"
    r"AWS Error UNKNOWN \(HTTP status (?:408|425|429|50[0234]|52\d)\)|"
    # obstore and delta-rs; delta-rs writes each cause in a line of its own, in colours.
    r"status code(?:\x1b\[\d+m|[^0-9\x1b])*(?:408|425|429|50[0234]|52\d)\b|"
    r"Generic S3 error(?s:.)*(?:HTTP error|<Code>(?:RequestTimeout|IncompleteBody|OperationAborted)</Code>)"
)
"""What an object store's clients say of a store that does not answer, or asks them to come back later."""

CASES: tuple[Case, ...] = (
    # Credentials that are renewed by themselves are read again by the clients of a restarted query. Of an
    # answer without a body pyarrow and S3A know nothing but the status.
    _case(
        "transient",
        EXPIRED,
        message=r"ExpiredToken|The (?:provided|security) token\b.*\bexpired",
    ),
    _case("transient", EXPIRED, "builtins.OSError", r"HTTP status 400\) during HeadObject operation"),
    _case(
        "transient",
        EXPIRED,
        "AWSBadRequestException",
        r"(?:Bad Request|null) \(Service: S3, Status Code: 400",
    ),
    # A process of Python that did not start within ten seconds, on a machine that is busy.
    _case("transient", "a worker of Python", message="Python worker failed to connect back"),
    # What never passes, although its class is one of those below.
    _case("operator", "two writers of one table", "ConcurrentTransactionException"),
    _case("operator", "the disk is full", message=r"No space left on device|Disk quota exceeded"),
    _case("operator", "a read-only disk", message=r"Read-only file system"),
    _case("operator", "records are gone from the topic", message="KAFKA_DATA_LOSS|failOnDataLoss"),
    _case(
        "operator",
        "records are gone from the topic",
        "org.apache.kafka.common.errors.OffsetOutOfRangeException "
        "org.apache.kafka.clients.consumer.InvalidOffsetException",
    ),
    _case(
        "operator",
        "access denied",
        "org.apache.kafka.common.errors.AuthenticationException "
        "org.apache.kafka.common.errors.AuthorizationException "
        "java.nio.file.AccessDeniedException org.apache.hadoop.security.AccessControlException "
        "NoAuthWithAWSException CredentialInitializationException NoAwsCredentialsException "
        "builtins.PermissionError obstore.exceptions.PermissionDeniedError "
        "obstore.exceptions.UnauthenticatedError",
    ),
    _case(
        "operator",
        "access denied",
        message=r"Status Code: (401|403)\b|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|"
        r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_SIGNATURE)|lacked the necessary privileges",
    ),
    _case(
        "operator",
        "files are missing",
        "java.io.FileNotFoundException java.nio.file.NoSuchFileException builtins.FileNotFoundError",
    ),
    _case("operator", "files", "medallion.files.FileSourceException"),
    _case("data", "a value", "SparkArithmeticException SparkNumberFormatException SparkDateTimeException"),
    _case("data", "a value", "InvariantViolationException DeltaInvariantViolationException"),
    _case("data", "a value", "medallion.faults.UnwritableException"),
    _case("data", "a record", "org.apache.kafka.common.errors.RecordTooLargeException"),
    _case("operator", "a query", "org.apache.spark.sql.AnalysisException AnalysisException ParseException"),
    # What passes.
    _case("transient", REGISTRY, "medallion.registry.RegistryUnavailable"),
    _case(
        "transient",
        BROKER,
        "org.apache.kafka.common.errors.RetriableException",
    ),
    _case("transient", BROKER, "java.util.concurrent.TimeoutException", "Cannot fetch record"),
    _case("transient", BROKER, "org.apache.kafka.common.config.ConfigException", "No resolvable bootstrap"),
    _case(
        "transient",
        CONFLICT,
        "DeltaConcurrentModificationException ConcurrentWriteException ConcurrentAppendException "
        "ConcurrentDeleteReadException ConcurrentDeleteDeleteException MetadataChangedException "
        "ProtocolChangedException CommitFailedError",
    ),
    _case(
        "transient",
        OBJECT_STORE,
        "AWSServiceThrottledException AWSStatus500Exception AWSNoResponseException "
        "AWSApiCallTimeoutException HttpChannelEOFException RetryableException ApiCallTimeoutException "
        "ApiCallAttemptTimeoutException",
    ),
    _case(
        "transient",
        OBJECT_STORE,
        "AWSServiceIOException AWSS3IOException S3Exception AmazonS3Exception AbfsRestOperationException "
        "GoogleJsonResponseException com.google.cloud.storage.StorageException "
        "com.microsoft.azure.storage.StorageException",
        _OVERLOADED,
    ),
    _case("transient", OBJECT_STORE, _STORE_CLIENTS, _AWAY),
    _case(
        "transient",
        OBJECT_STORE,
        "SdkClientException",
        r"(?i)unable to execute HTTP request|timed? ?out|could not parse XML response",
    ),
    _case(
        "transient",
        NETWORK,
        "java.net.SocketException java.net.SocketTimeoutException java.net.UnknownHostException "
        "java.nio.channels.UnresolvedAddressException org.apache.http.NoHttpResponseException "
        "org.apache.http.ConnectionClosedException "
        "builtins.ConnectionError builtins.TimeoutError",
    ),
)
"""The causes that are known, by class of error; the first case that an error of the chain matches counts."""

_CLASS_IN_TEXT = re.compile(r"(?:^|[\n:]\s*)((?:[a-z_]\w*\.)+[A-Z][\w$]*)(?:: (.*)|$)", re.MULTILINE)
"""An error's class, with its message, in the text of another error: Spark tells a task's error this way."""


def cause_of(*errors: BaseException | None) -> Cause:
    """Why a query failed, by the classes of its errors and of their causes.

    Args:
        errors: What the micro-batch raised, and what Spark says of the query; each None if there is none.
    """
    return classify([fault for error in errors if error is not None for fault in _faults(error)])


def causes_text(*errors: BaseException | None) -> str:
    """The causes of errors by the JVM's stack traces, one a line: the text of an error may lack them."""
    traces = (jvm.stack_trace(error) for error in errors if error is not None)
    lines = (line.strip() for trace in traces for line in trace.splitlines())
    return "\n".join(line for line in lines if line.startswith("Caused by: "))


def classify(faults: Iterable[Fault]) -> Cause:
    """The cause of the first case of ``CASES`` that one of these errors matches."""
    chain = [named for fault in faults for named in (fault, *_in_text(fault))]
    for case in CASES:
        if any(case.matches(fault) for fault in chain):
            return case.cause
    return Cause("unknown")


def _faults(error: BaseException) -> Iterator[Fault]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        names = tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(found).__mro__)
        yield Fault(names, str(found))
        yield from (Fault(classes, message) for classes, message in jvm.throwables(found))
        found = found.__cause__ or found.__context__


def _in_text(fault: Fault) -> Iterator[Fault]:
    """Errors that the message of another error names."""
    for found in _CLASS_IN_TEXT.finditer(fault.message):
        yield Fault((found[1],), found[2] or "")
