"""What is retried and what is not, by the errors that Kafka, Delta, the stores and Spark really throw."""

from __future__ import annotations

import errno

import pytest

from common.errors import QueryFailedError, RegistryError, RuleFailedError, TransientFailureError
from common.streaming.failure_cause import (
    BROKER,
    CASES,
    CONFLICT,
    EXPIRED,
    NETWORK,
    OBJECT_STORE,
    REGISTRY,
    Fault,
    cause_of,
    classify,
)
from common.streaming.query import failure_of

KAFKA = "org.apache.kafka.common.errors"

S3A = "org.apache.hadoop.fs.s3a"
SDK = "software.amazon.awssdk.services.s3.model.S3Exception:"

TASK_FAILED = (
    "Job aborted due to stage failure: Task 0 in stage 9.0 failed 1 times, most recent failure: Lost task "
    "0.0 in stage 9.0 (TID 9) (host executor driver): java.util.concurrent.TimeoutException: Cannot fetch "
    "record for offset 7 in 120000 ms\n\tat a.b"
)

CHAINS = [
    # Kafka: the class says whether the client may try again.
    (BROKER, [("java.util.concurrent.ExecutionException", ""), (f"{KAFKA}.TimeoutException", "timed out")]),
    (BROKER, [("java.util.concurrent.TimeoutException", "Cannot fetch record for offset 7 in 120000 ms")]),
    (BROKER, [("org.apache.kafka.common.config.ConfigException", "No resolvable bootstrap urls given")]),
    ("unknown", [("java.util.concurrent.TimeoutException", "a job took long")]),
    ("operator", [(f"{KAFKA}.SaslAuthenticationException", "bad password")]),
    ("operator", [(f"{KAFKA}.TopicAuthorizationException", "Not authorized to access topics: [a]")]),
    ("operator", [("java.lang.IllegalStateException", "[KAFKA_DATA_LOSS.START_OFFSET_HAS_BEEN_RESET] gone")]),
    ("operator", [(f"{KAFKA}.OffsetOutOfRangeException", "out of range")]),
    ("data", [(f"{KAFKA}.RecordTooLargeException", "too large")]),
    ("transient", [("org.apache.spark.SparkException", "Python worker failed to connect back.")]),
    # Tasks: Spark names their errors in the text of its own.
    (
        BROKER,
        [
            (
                "org.apache.spark.SparkException",
                TASK_FAILED,
            )
        ],
    ),
    # Object stores.
    (OBJECT_STORE, [("org.apache.hadoop.fs.s3a.AWSServiceThrottledException", "SlowDown")]),
    (
        OBJECT_STORE,
        [("org.apache.hadoop.fs.s3a.AWSS3IOException", "Status Code: 503, reduce your request rate")],
    ),
    ("operator", [("org.apache.hadoop.fs.s3a.AWSS3IOException", "Status Code: 403, AccessDenied")]),
    ("unknown", [("org.apache.hadoop.fs.s3a.AWSS3IOException", "Status Code: 400, no such bucket")]),
    (
        OBJECT_STORE,
        [("org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException", "failed: 503")],
    ),
    (
        OBJECT_STORE,
        [
            ("java.io.IOException", "Error accessing gs://a"),
            ("com.google.api.client.googleapis.json.GoogleJsonResponseException", "429 Too Many Requests"),
        ],
    ),
    # pyarrow, obstore and delta-rs, whose real errors are in test_store_failures.py.
    (
        OBJECT_STORE,
        [("builtins.OSError", "AWS Error SLOW_DOWN during ListObjectsV2 operation: Please reduce")],
    ),
    (
        "operator",
        [("obstore.exceptions.PermissionDeniedError", "The operation lacked the necessary privileges")],
    ),
    ("operator", [("builtins.OSError", "AWS Error ACCESS_DENIED during HeadObject operation: No response")]),
    # S3A.
    (
        OBJECT_STORE,
        [(f"{S3A}.AWSStatus500Exception", f"{SDK} internal error. (Service: S3, Status Code: 500)")],
    ),
    (
        OBJECT_STORE,
        [(f"{S3A}.AWSServiceThrottledException", f"{SDK} Slow Down (Service: S3, Status Code: 503)")],
    ),
    (
        EXPIRED,
        [
            (
                f"{S3A}.AWSBadRequestException",
                f"{SDK} The provided token has expired. (Service: S3, Status Code: 400)",
            )
        ],
    ),
    (
        OBJECT_STORE,
        [
            (f"{S3A}.AWSClientIOException", "getFileStatus on s3a://b/k"),
            (
                "software.amazon.awssdk.core.exception.SdkClientException",
                "Unable to execute HTTP request: reset",
            ),
        ],
    ),
    (
        OBJECT_STORE,
        [("software.amazon.awssdk.core.exception.ApiCallTimeoutException", "did not complete before")],
    ),
    (
        EXPIRED,
        [
            (
                f"{S3A}.AWSBadRequestException",
                f"open s3a://b/k: {SDK} Bad Request (Service: S3, Status Code: 400, Request ID: null)",
            )
        ],
    ),
    (
        "unknown",
        [
            (
                f"{S3A}.AWSBadRequestException",
                f"{SDK} The bucket is not valid. (Service: S3, Status Code: 400)",
            )
        ],
    ),
    (
        OBJECT_STORE,
        [("software.amazon.awssdk.core.exception.SdkClientException", "Could not parse XML response.")],
    ),
    # S3A, by its source: faults that no request to a faulty store gives.
    (OBJECT_STORE, [(f"{S3A}.HttpChannelEOFException", "read on s3a://b/k: channel closed")]),
    (OBJECT_STORE, [(f"{S3A}.AWSApiCallTimeoutException", "put on s3a://b/k: did not complete")]),
    (OBJECT_STORE, [(f"{S3A}.AWSNoResponseException", "open on s3a://b/k: (Status Code: 443)")]),
    (
        OBJECT_STORE,
        [
            (f"{S3A}.AWSS3IOException", "delete: MultiObjectDeleteException"),
            (
                f"{S3A}.impl.MultiObjectDeleteException",
                "[S3Error(Key=k, Code=InternalError, Message=)]",
            ),
        ],
    ),
    (
        OBJECT_STORE,
        [
            (
                f"{S3A}.AWSS3IOException",
                "d/k: S3Exception: A conflicting conditional operation is in progress (OperationAborted)",
            )
        ],
    ),
    (NETWORK, [("org.apache.http.ConnectionClosedException", "Premature end of Content-Length delimited")]),
    (NETWORK, [("org.apache.hadoop.net.ConnectTimeoutException", "connect timed out")]),
    ("operator", [(f"{S3A}.auth.NoAwsCredentialsException", "no credentials for s3a://b")]),
    # Commits.
    (CONFLICT, [("io.delta.exceptions.ConcurrentAppendException", "Files were added")]),
    (CONFLICT, [("io.delta.exceptions.MetadataChangedException", "changed")]),
    ("operator", [("io.delta.exceptions.ConcurrentTransactionException", "two streams")]),
    # The network and the registry.
    (REGISTRY, [("medallion.registry.RegistryUnavailable", "no answer")]),
    (NETWORK, [("java.net.ConnectException", "Connection refused")]),
    (NETWORK, [("java.net.UnknownHostException", "store.example")]),
    # Disk, rights, files.
    ("operator", [("java.io.IOException", "No space left on device")]),
    ("operator", [("java.io.FileNotFoundException", "/lake/part-1.parquet (Read-only file system)")]),
    ("operator", [("java.nio.file.AccessDeniedException", "/data")]),
    ("operator", [("java.io.FileNotFoundException", "/data/part-0.parquet")]),
    ("operator", [("medallion.files.FileSourceException", "/archive is not there")]),
    ("operator", [("org.apache.spark.sql.AnalysisException", "[UNRESOLVED_COLUMN] x")]),
    # Data.
    ("data", [("org.apache.spark.SparkArithmeticException", "[DIVIDE_BY_ZERO]")]),
    ("data", [("medallion.faults.UnwritableException", "field 'a' is null")]),
    ("data", [("org.apache.spark.sql.delta.schema.DeltaInvariantViolationException", "CHECK constraint")]),
    ("unknown", [("java.lang.NullPointerException", "")]),
]

PARENTS = {
    f"{KAFKA}.TimeoutException": f"{KAFKA}.RetriableException",
    f"{KAFKA}.SaslAuthenticationException": f"{KAFKA}.AuthenticationException",
    f"{KAFKA}.TopicAuthorizationException": f"{KAFKA}.AuthorizationException",
    f"{KAFKA}.OffsetOutOfRangeException": f"{KAFKA}.RetriableException",
    "java.net.ConnectException": "java.net.SocketException",
    "org.apache.hadoop.net.ConnectTimeoutException": "java.net.SocketTimeoutException",
    f"{S3A}.impl.MultiObjectDeleteException": "software.amazon.awssdk.services.s3.model.S3Exception",
    "medallion.registry.RegistryUnavailable": "java.lang.RuntimeException",
}


@pytest.mark.parametrize(("expected", "chain"), CHAINS, ids=lambda part: str(part)[-60:])
def test_the_cause_of_a_chain_of_errors(expected: str, chain: list[tuple[str, str]]) -> None:
    faults = [Fault((name, *([PARENTS[name]] if name in PARENTS else [])), text) for name, text in chain]
    wrapped = [Fault(("org.apache.spark.SparkException",), "Job aborted"), *faults]
    cause = classify(wrapped)
    assert expected in {cause.kind, cause.subject}
    if expected in {BROKER, REGISTRY, NETWORK, OBJECT_STORE, EXPIRED, CONFLICT}:
        assert cause.kind == "transient"


def test_every_case_is_covered() -> None:
    reached = {
        classify([Fault((name, PARENTS.get(name, "")), text)]) for _, chain in CHAINS for name, text in chain
    }
    assert {case.cause for case in CASES} <= reached


def test_errors_of_python_are_told_by_their_class_too() -> None:
    assert cause_of(ConnectionResetError("gone")).subject == NETWORK
    assert cause_of(PermissionError(errno.EACCES, "denied")).kind == "operator"
    assert cause_of(OSError(errno.ENOSPC, "No space left on device")).subject == "the disk is full"
    assert cause_of(ValueError("anything")).kind == "unknown"
    wrapping = RuntimeError("outer")
    wrapping.__cause__ = TimeoutError("inner")
    assert cause_of(None, wrapping).subject == NETWORK


def test_what_a_query_raised_becomes_the_error_that_decides_its_restart() -> None:
    transient = failure_of("silver.x", ConnectionResetError("gone"))
    assert isinstance(transient, TransientFailureError)
    assert str(transient) == "silver.x failed: the network: gone"
    assert transient.retryable
    own = RuleFailedError("silver.x", "a rule")
    assert failure_of("silver.x", own) is own
    other = failure_of("silver.x", ValueError("no"))
    assert type(other) is QueryFailedError
    assert (other.retryable, other.cause_kind) == (False, "unknown")
    registry = failure_of("silver.x", RuntimeError(": medallion.registry.RegistryUnavailable: no answer"))
    assert isinstance(registry, RegistryError)


def test_a_word_in_a_message_is_no_class() -> None:
    """Only a name where an error's text has its class counts."""
    text = "column java.net.ConnectException of the table is null"
    assert classify([Fault(("java.lang.IllegalStateException",), text)]).kind == "unknown"
