"""Errors of Spark, Delta and Kafka's client: explained with place and command, recognized by their class."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from common.errors import (
    BrokerAwayError,
    BrokerError,
    DiskFullError,
    ForeignChangeError,
    HistoryGoneError,
    MedallionError,
    QueryFailedError,
    RecordsGoneError,
    StateChangedError,
    StateDamagedError,
    TableError,
    TableShapeError,
    TransientFailureError,
)
from common.streaming.query import failure_of, told
from common.streaming.spark_errors import FailedQuery, explain, without_values

BRONZE = FailedQuery("bronze.orders", checkpoint="/cp/bronze.orders", source="Kafka at b:1")
SILVER = FailedQuery(
    "silver.orders",
    ("bronze.orders",),
    ("silver.orders__quarantine", "silver.orders__late"),
    "/cp/silver.orders",
)
GOLD = FailedQuery("gold.counts", ("silver.orders",), (), "/cp/gold.counts")

LOST = (
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are "
    "not available in Kafka any more; either the data was aged out by Kafka or the topic may have been "
    "deleted "
    "before all the data in the topic was processed. If you don't want your streaming query to fail on such "
    "cases, set the source option failOnDataLoss to false. Reason: "
)

CHANGED = (
    "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example UPDATE (Map())) in the source "
    "table at version 2. This is currently not supported."
)

CASES: list[tuple[FailedQuery, str, type[MedallionError], list[str]]] = [
    *(
        (
            SILVER,
            text,
            QueryFailedError,
            ["refuses /lake/silver/orders", f"({why})", "Have the folder"],
        )
        for text, why in (
            (
                "java.io.FileNotFoundException: /lake/silver/orders/part-1.parquet (Read-only file system)",
                "Read-only file system",
            ),
            (
                "PermissionError: [Errno 13] Permission denied: '/lake/silver/orders/_delta_log/3.json'",
                "Permission denied",
            ),
            (
                "java.io.IOException: Mkdirs failed to create file:/lake/silver/orders/batch=3/attempt_0",
                "a folder cannot be created",
            ),
            (
                "java.nio.file.AccessDeniedException: /lake/silver/orders/_delta_log/.3.json.tmp",
                "Permission denied",
            ),
            (
                "java.nio.file.FileSystemException: /lake/silver/orders/3.json.tmp: Read-only file system",
                "Read-only file system",
            ),
        )
    ),
    (
        replace(GOLD, changes="ignore_deletes"),
        CHANGED,
        ForeignChangeError,
        ["version 2", "has updated or deleted rows", 'changes="ignore_deletes" takes none of these'],
    ),
    (GOLD, CHANGED, ForeignChangeError, ["rows, and the declaration takes none. Nothing of it"]),
    (
        BRONZE,
        f"{LOST}Partition orders-0 offset was changed from 30 to 5. This could be either 1)",
        RecordsGoneError,
        [
            "Kafka at b:1 no longer has records",
            "orders-0 offset was changed from 30 to 5.",
            "medallion recover bronze.orders --accept-gap",
        ],
    ),
    (
        BRONZE,
        f"{LOST}Partitions Set(orders-2) have been deleted.",
        RecordsGoneError,
        ["Set(orders-2) have been deleted", "medallion recover bronze.orders --new-topic NAME"],
    ),
    (
        BRONZE,
        (
            "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
            "UnknownTopicOrPartitionException: This server does not host this topic-partition."
        ),
        RecordsGoneError,
        ["This server does not host this topic-partition"],
    ),
    (
        BRONZE,
        (
            "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n"
            "Caused by: javax.security.auth.login.LoginException: An internal error occurred while "
            "retrieving token from callback handler"
        ),
        TransientFailureError,
        ["the token endpoint: it gave no token to log in with at Kafka at b:1", "client.secret"],
    ),
    (
        BRONZE,
        (
            "Caused by: javax.security.auth.login.LoginException: org.apache.kafka.common.KafkaException: "
            "org.apache.kafka.common.security.oauthbearer.internals.secured.UnretryableException: "
            "java.io.IOException: The response code 401 and error response "
            '{"invalid_client" - "wrong secret"} was encountered reading the token endpoint response; will '
            "not attempt further retries"
        ),
        TransientFailureError,
        ['no token to log in with at Kafka at b:1 (The response code 401 and error response {"invalid_cl'],
    ),
    (
        BRONZE,
        (
            "Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired before "
            "the position for partition orders-0 could be determined"
        ),
        BrokerAwayError,
        ["Kafka at b:1 does not answer", "partition orders-0"],
    ),
    (
        SILVER,
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///w/bronze/orders/p.parquet."
            "\nCaused by: ParquetDecodingException: could not verify page integrity, CRC "
            "checksum verification failed"
        ),
        TableError,
        ["bits of file:///w/bronze/orders/p.parquet", "Restore the file from a copy"],
    ),
    (
        SILVER,
        "java.nio.file.FileSystemException: /w/silver/orders/_delta_log: Too many open files\n\t... 24 more",
        QueryFailedError,
        ["ulimit -n is ", "ulimit -n 8192"],
    ),
    (
        SILVER,
        (
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint positive (amount > 0) violated by row "
            "with values:\n - amount : -7"
        ),
        TableShapeError,
        ["constraint positive of the table", "DROP CONSTRAINT positive"],
    ),
    (
        BRONZE,
        (
            "Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: "
            "Invalid "
            "username or password"
        ),
        BrokerError,
        ["refuses the login: Authentication failed: Invalid username or password.", "kafka.options"],
    ),
    (
        BRONZE,
        (
            "org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed\nCaused by: "
            "javax.net.ssl.SSLHandshakeException: No subject alternative names matching IP address 127.0.0.1 "
            "found"
        ),
        BrokerError,
        ["do not agree on TLS: No subject alternative names matching IP address 127.0.0.1 found."],
    ),
    (
        BRONZE,
        (
            "org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed\nCaused by: "
            "java.security.cert.CertificateExpiredException: NotAfter: Sun Mar 01 00:00:00 UTC 2026"
        ),
        BrokerError,
        ["TLS: NotAfter: Sun Mar 01"],
    ),
    (
        BRONZE,
        (
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: "
            "[orders]"
        ),
        BrokerError,
        ["refuses this user: TopicAuthorizationException: Not authorized to access topics: [orders].", "ACL"],
    ),
    (
        SILVER,
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
            "file:///w/bronze/orders/part-1.c000"
            ".zstd.parquet. File does not exist."
        ),
        HistoryGoneError,
        [
            "bronze.orders has no longer the file file:///w/bronze/orders/part-1.c000.zstd.parquet",
            "VACUUM",
            "medallion recover silver.orders",
        ],
    ),
    (
        SILVER,  # a file without an ending, as another writer may name it
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///w/orders/1. File "
            "does not exist.\n\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter"
        ),
        HistoryGoneError,
        ["bronze.orders has no longer the file file:///w/orders/1, which"],
    ),
    (
        SILVER,
        (
            "[DELTA_FILE_NOT_FOUND_DETAILED] File /w/orders/part.parquet referenced in the transaction log "
            "cannot be found.\n\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter"
        ),
        HistoryGoneError,
        ["bronze.orders has no longer the file /w/orders/part.parquet, which"],
    ),
    (
        GOLD,
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///w/part-1.parquet.",
        HistoryGoneError,
        ["silver.orders has no longer", "medallion rebuild gold.counts"],
    ),
    (
        SILVER,
        (
            "[DELTA_MISSING_FILES_UNEXPECTED_VERSION] The stream from your Delta table was expecting process "
            "data from "
            "version 4,\nbut the earliest available version in the _delta_log directory is 10. set "
            "'failOnDataLoss'"
        ),
        HistoryGoneError,
        ["no longer version 4", "the oldest that is left is 10", "medallion recover silver.orders"],
    ),
    (
        GOLD,
        (
            "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] An error occurred during loading "
            "state. Error reading delta file file:/cp/gold.counts/state/0/1/2.delta of a provider"
        ),
        StateDamagedError,
        ["file:/cp/gold.counts/state/0/1/2.delta is damaged or gone", "medallion rebuild gold.counts"],
    ),
    (
        GOLD,
        (
            "[STDS_FAILED_TO_READ_OPERATOR_METADATA] Failed to read the operator metadata for "
            "checkpointLocation=file:/cp/gold.counts/state/0 and batchId=2."
        ),
        StateDamagedError,
        ["read: file:/cp/gold.counts/state/0 is damaged or gone", "medallion rebuild gold.counts"],
    ),
    (
        GOLD,
        (
            "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state "
            "value schema.\nPlease check number and type of fields.\nExisting value_schema=StructType(…)"
        ),
        StateChangedError,
        ["columns or types differ ([STATE_STORE_VALUE_SCHEMA_NOT", "medallion rebuild gold.counts"],
    ),
    (
        GOLD,
        (
            "[STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE] Cannot change seen to ListState between query "
            "restarts. Please set seen to ValueState, or restart with a new checkpoint directory."
        ),
        StateChangedError,
        ["seen was a ValueState and is a ListState", "Nothing was written"],
    ),
    (
        SILVER,
        "org.apache.spark.SparkException\nCaused by: net.jpountz.lz4.LZ4Exception: Error decoding offset 9",
        StateDamagedError,
        ["/cp/silver.orders/state is damaged or gone (LZ4Exception", "medallion recover silver.orders"],
    ),
    (
        SILVER,
        "java.lang.IllegalStateException: Incomplete log file in file:/cp/silver.orders/offsets/7",
        StateDamagedError,
        ["file:/cp/silver.orders/offsets/7 is damaged", "medallion recover silver.orders"],
    ),
    (
        GOLD,
        "java.io.IOException: No space left on device\n\tat java.base/sun.nio.ch.FileDispatcherImpl.write0",
        DiskFullError,
        ["No space left on device", "Make room and repeat the command"],
    ),
]


@pytest.mark.parametrize(("query", "text", "kind", "says"), CASES, ids=lambda value: str(value)[:40])
def test_a_known_error_says_what_where_and_what_to_type(
    query: FailedQuery, text: str, kind: type[MedallionError], says: list[str]
) -> None:
    found = explain(query, text)
    assert type(found) is kind
    message = str(found)
    assert query.name in message
    for part in says:
        assert part in message
    assert "\n" not in message
    assert not re.search(r"set 'failOnDataLoss|source option failOnDataLoss", message)


@pytest.mark.parametrize(
    "text",
    [
        "[DIVIDE_BY_ZERO] Division by zero",
        "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]",
        "KeyError: 'offset'",
        "java.io.FileNotFoundException: /home/me/lookup.csv",
    ],
)
def test_an_unknown_error_is_left_as_it_is(text: str) -> None:
    assert explain(GOLD, text) is None


def test_only_an_answer_that_may_come_yet_is_waited_for() -> None:
    retried = {kind.__name__ for *_, kind, _ in CASES if kind.retryable}
    assert retried == {"BrokerAwayError", "TransientFailureError"}


def conditions() -> dict[str, str]:
    """Every condition of Spark whose message has values of data, constraints or users, and its template."""
    (jar,) = (Path(pyspark.__path__[0]) / "jars").glob("spark-common-utils_*.jar")
    with ZipFile(jar) as files:
        known = json.loads(files.read("error/error-conditions.json"))
    found = {}
    for name, one in known.items():
        if one.get("sqlState", "")[:2] in {"21", "22", "23", "39", "P0"}:
            parts = [one["message"], *(sub["message"] for sub in one.get("subClass", {}).values())]
            found[name] = " ".join(line for part in parts for line in part)
    return found


VALUES = ("GOLDBOMB", "'GOLDBOMB'", '"GOLDBOMB"', "Text 'GOLDBOMB' could not be parsed")


@pytest.mark.parametrize("value", VALUES)
def test_no_message_of_spark_shows_a_value(value: str) -> None:
    """Whatever parameter of whatever condition the value is; types and constraints are of the tables."""
    known = conditions()
    assert len(known) > 80
    for name, template in known.items():
        kept = "(?!sourceType|targetType|constraintName" + ("|expression)" if "CHECK" in name else ")")
        message = f"[{name}] {re.sub(f'<{kept}[^>]+>', value, template)} SQLSTATE: 22018"
        shown = without_values(message, f"org.apache.spark.SparkRuntimeException: {message}\n\tat x.y(z)")
        assert "GOLDBOMB" not in shown, name
        assert shown.startswith(f"[{name}] "), name


CAST = (
    '[CAST_INVALID_INPUT] The value \'GOLDBOMB\' of the type "STRING" cannot be cast to "INT" because it is '
    "malformed. Correct the value as per the syntax, or change its target type. Use `try_cast` to tolerate "
    "malformed input and return NULL instead. SQLSTATE: 22018"
)
UNDER = 4 * " " + 21 * "^"
WHERE = f"\n== SQL (line 1, position 5) ==\nsum(cast(customer as int))\n{UNDER}\n\n\tat org.x"
CANNOT_CAST = '[CAST_INVALID_INPUT] a value of the type "STRING" cannot be cast to "INT"'
FORMAT = '[INVALID_FORMAT.MISMATCH_INPUT] The input "STRING" GOLDBOMB does not match the format.'
BROKEN = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint paid (amount > 0)"
UNRESOLVED = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `custmer` cannot be resolved. SQLSTATE: 42703"


@pytest.mark.parametrize(
    ("line", "more", "shown"),
    [
        (CAST, WHERE, f"{CANNOT_CAST}: cast(customer as int)"),
        (f"Job aborted due to stage failure: SparkNumberFormatException: {CAST}", "", CANNOT_CAST),
        (
            f"{BROKEN} violated by row with values:",
            "\n - customer : GOLDBOMB\nSQLSTATE: 23001",
            f"{BROKEN} is violated",
        ),
        (FORMAT, " SQLSTATE: 42601", "[INVALID_FORMAT.MISMATCH_INPUT] a value cannot be processed"),
        ("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`", "", "[DIVIDE_BY_ZERO] Division by zero"),
        (
            "invalid literal for int() with base 10: 'GOLDBOMB'",
            "",
            "invalid literal for int() with base 10: '…'",
        ),
        ('For input string: "GOLDBOMB"', "", "For input string: '…'"),
        (
            "Could not convert '/GOLDBOMB' with type str",
            "\nArrowInvalid",
            "Could not convert '…' with type str",
        ),
    ],
)
def test_values_go_and_class_and_expression_stay(line: str, more: str, shown: str) -> None:
    assert without_values(line, f"{line}{more}") == shown


@pytest.mark.parametrize(
    "line",
    [
        "No such file or directory: '/data/x.parquet'",
        "no route to 'broker.internal:9092'",
        "it doesn't answer, and the reader can't go on",
        UNRESOLVED,
        "Partition orders-0 offset was changed from 30 to 5.",
    ],
)
def test_what_a_person_needs_and_no_record_has_stays(line: str) -> None:
    assert without_values(line, line) == line
    assert without_values(
        "name 'custmer' is not defined", "NameError: name 'custmer' is not defined"
    ).endswith("'custmer' is not defined")


def test_the_field_of_a_message_that_cannot_be_written_stays() -> None:
    """Its error has the schema's names alone; of other errors the quoted text may be a record's."""
    said = "field 'place.zip' is null, and the schema has no null there"
    trace = f"org.apache.spark.SparkException: Job aborted.\nCaused by: {{}}: {said}\n\tat a.b(c)"
    own = failure_of("publish.sent", RuntimeError(trace.format("medallion.faults.UnwritableException")))
    assert str(own) == f"publish.sent failed: {said}"
    other = failure_of("publish.sent", RuntimeError(trace.format("java.lang.IllegalStateException")))
    assert "place.zip" not in str(other)


def test_what_ends_a_query_is_published_without_values() -> None:
    """Also if the query's own Python function raised it."""
    spark = failure_of(
        "gold.by_customer", RuntimeError(f"An error occurred while calling o1.x.\n: {CAST}{WHERE}")
    )
    python = failure_of("gold.by_customer", ValueError("invalid literal for int() with base 10: 'GOLDBOMB'"))
    assert isinstance(spark, QueryFailedError)
    assert str(spark) == (
        'gold.by_customer failed: [CAST_INVALID_INPUT] a value of the type "STRING" cannot be cast to "INT": '
        "cast(customer as int). Nothing of the micro-batch was written. Correct the row in its source, or "
        "write try_cast there, which gives null; then fill the table again: medallion rebuild "
        "gold.by_customer"
    )
    assert "GOLDBOMB" not in str(python) + told(ValueError("'GOLDBOMB'"))
