"""What each client of an object store raises at each fault, and what becomes of a query that fails by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import deltalake
import obstore
import pyarrow as pa
import pytest
from obstore.store import S3Store
from pyarrow import fs

from common.machine import object_store
from common.machine.object_store import S3Access
from common.streaming.failure_cause import EXPIRED, OBJECT_STORE, cause_of
from common.streaming.query import failure_of
from tests.support.servers.faulty_store import FAULTS, FaultyStore, faulty_store

KEYS = {"access_key": "a", "secret_key": "b", "region": "us-east-1"}
SECONDS = 1.0
"""How long the clients of this file wait for an answer."""


def arrow(store: FaultyStore) -> fs.S3FileSystem:
    once = fs.AwsStandardS3RetryStrategy(max_attempts=1)
    waits = {"request_timeout": SECONDS, "connect_timeout": SECONDS}
    return fs.S3FileSystem(
        endpoint_override=store.address, scheme="http", retry_strategy=once, **KEYS, **waits
    )


def arrow_writes(store: FaultyStore) -> None:
    with arrow(store).open_output_stream("b/k") as file:
        file.write(b"x")


def conditional(store: FaultyStore) -> Any:
    pauses = {
        "init_backoff": timedelta(milliseconds=50),
        "max_backoff": timedelta(milliseconds=50),
        "base": 2,
    }
    return S3Store(
        "b",
        endpoint=f"http://{store.address}",
        access_key_id="a",
        secret_access_key="b",  # noqa: S106  # of a store that refuses all
        region="us-east-1",
        client_options={"allow_http": True, "timeout": f"{SECONDS:.0f}s"},
        retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=1), "backoff": pauses},
    )


def options(store: FaultyStore) -> dict[str, str]:
    return {
        "aws_endpoint": f"http://{store.address}",
        "aws_allow_http": "true",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_region": "us-east-1",
        "max_retries": "1",
        "retry_timeout": "1s",
        "timeout": f"{SECONDS:.0f}s",
    }


CALLS: dict[str, Callable[[FaultyStore], object]] = {
    "pyarrow reads": lambda store: arrow(store).open_input_stream("b/k").read(),
    "pyarrow lists": lambda store: arrow(store).get_file_info(fs.FileSelector("b/d")),
    "pyarrow writes": arrow_writes,
    "pyarrow deletes": lambda store: arrow(store).delete_file("b/k"),
    "obstore reads": lambda store: obstore.get(conditional(store), "k").bytes(),
    "obstore creates": lambda store: obstore.put(conditional(store), "k", b"x", mode="create"),
    "obstore lists": lambda store: conditional(store).list("d").collect(),
    "delta-rs reads": lambda store: deltalake.DeltaTable("s3://b/t", storage_options=options(store)),
    "delta-rs writes": lambda store: deltalake.write_deltalake(
        "s3://b/t", pa.table({"a": [1]}), storage_options=options(store)
    ),
}


def raised(call: str, fault: str) -> BaseException:
    with faulty_store(fault) as store:
        try:
            CALLS[call](store)
        except Exception as error:  # noqa: BLE001  # of three libraries
            return error
    raise AssertionError(f"{call}: no error")


def expected(fault: str) -> set[tuple[str, str]]:
    """What a fault may be taken for: the answer to a HEAD has no body, and a status of 400 for two faults."""
    store, expired = ("transient", OBJECT_STORE), ("transient", EXPIRED)
    return {"denied": {("operator", "access denied")}, "expired": {expired}, "idle": {store, expired}}.get(
        fault, {store}
    )


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", [*FAULTS, "reset", "cut", "timeout"])
def test_a_query_is_restarted_after_a_fault_of_the_store_that_passes(call: str, fault: str) -> None:
    """It was stopped for good: the errors of these clients had no case."""
    cause = cause_of(raised(call, fault))
    assert (cause.kind, cause.subject) in expected(fault)


def test_what_is_told_of_such_a_failure_is_one_line_without_colours() -> None:
    told = str(failure_of("gold.x", raised("delta-rs reads", "slow down")))
    assert told.startswith("gold.x failed: the object store: ")
    assert "\x1b" not in told
    assert "\n" not in told


def arrow_of_product() -> None:
    system, path = object_store.file_system("s3a://b/t")
    system.get_file_info(path)


PRODUCT: dict[str, Callable[[], object]] = {
    "obstore": lambda: object_store.put("s3a://b/t", "k", b"x"),
    "delta-rs": lambda: deltalake.DeltaTable(
        "s3://b/t", storage_options=object_store.storage_options("s3a://b/t")
    ),
    "pyarrow": arrow_of_product,
}
"""A request of each client as the product opens it."""


@pytest.mark.long
@pytest.mark.parametrize("call", PRODUCT)
def test_a_client_repeats_a_request_for_as_long_as_it_is_told(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of leases gave up after ten attempts, which are over within two seconds."""
    monkeypatch.setattr(object_store, "_RETRIES", timedelta(seconds=6))
    monkeypatch.setattr(object_store, "_ARROW_ATTEMPTS", 7)
    with faulty_store("slow down") as store:
        monkeypatch.setattr(
            object_store, "_access", S3Access(f"http://{store.address}", is_path_style=True, **KEYS)
        )
        began = time.monotonic()
        with pytest.raises(OSError, match=r"reduce your request rate|503"):
            PRODUCT[call]()
        assert time.monotonic() - began > 3.5
