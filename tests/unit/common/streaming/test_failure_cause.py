"""What is retried and what is not, by the errors that Kafka, Delta, the stores and Spark really throw."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from common.errors import QueryFailedError, RegistryError, RuleFailedError, TransientFailureError
from common.streaming.failure_cause import (
    CASES,
    NETWORK,
    Fault,
    cause_of,
    classify,
)
from common.streaming.query import failure_of
from tests.support.documents import chapters

KAFKA = "org.apache.kafka.common.errors"

S3A = "org.apache.hadoop.fs.s3a"
CHAPTER = Path(__file__).parents[3] / "spec" / "troubles" / "causes.md"
ROWS = {row.place: row for row in chapters.rows(CHAPTER)}


def chain_of(row: chapters.Row) -> list[tuple[str, str]]:
    """Class and message of each error of a row."""
    found = (chapters.text(each).partition(": ") for each in row.cells[0].split("<br>"))
    return [(name, message) for name, _, message in found]


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


@pytest.mark.parametrize("place", ROWS)
def test_the_cause_of_a_chain_of_errors(place: str) -> None:
    """``WRITE_CHAPTERS=1`` writes the cause of today."""
    row = ROWS[place]
    faults = [
        Fault((name, *([PARENTS[name]] if name in PARENTS else [])), text) for name, text in chain_of(row)
    ]
    cause = classify([Fault(("org.apache.spark.SparkException",), "Job aborted"), *faults])
    if "WRITE_CHAPTERS" in os.environ:
        row.write({1: cause.kind, 2: cause.subject or "-"})
    else:
        assert (cause.kind, cause.subject or "-") == row.cells[1:]


def test_every_case_is_covered() -> None:
    faults = [fault for row in ROWS.values() for fault in chain_of(row)]
    reached = {classify([Fault((name, PARENTS.get(name, "")), text)]) for name, text in faults}
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
