"""Leases on a store: taken from no live process, and only where the store has conditional puts.

Two hosts and Spark's commits: tests/process/install/test_store_leases.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from common.delta.lease import store_leases
from common.delta.lease.store_leases import StoreLeases
from common.errors import LeaseHeldError, SetupError
from common.machine import lease_owner, object_store
from common.machine.object_store import S3Access
from tests.support.servers.object_server import ObjectServer, object_server

TABLES = ("bronze.orders", "silver.orders")


@pytest.fixture(autouse=True)
def _own_access(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_access", S3Access())


def leases(server: ObjectServer, job: str = "up") -> StoreLeases:
    object_store.use(S3Access(server.address, "us-east-1", True, "a", "b"))
    return StoreLeases("s3a://lake", TABLES, job, 60.0)


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server(has_conditions=True) as found:
        yield found


def test_leases_are_acquired_and_released_and_the_probe_is_gone(server: ObjectServer) -> None:
    with leases(server):
        assert sorted(server.objects) == [f"/lake/_leases/{table}.json" for table in TABLES]
    assert [json.loads(content)["owner"] for content in server.objects.values()] == ["", ""]


def test_a_store_that_ignores_conditions_is_refused_before_a_lease_is_written() -> None:
    """Each of three jobs that started at once had every lease."""
    with object_server(has_conditions=False) as server:
        with pytest.raises(SetupError, match=r"ignores the conditions of a put .* Nothing was started"):
            leases(server).__enter__()
        assert server.objects == {}


def test_a_lease_of_another_container_of_this_machine_is_not_taken(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process ids are of another namespace: the id of a live process is nobody's here."""
    first = leases(server)
    first.__enter__()
    monkeypatch.setattr(lease_owner, "OWNER", "another")
    monkeypatch.setattr(store_leases.processes, "is_running", lambda *_: False)
    with leases(server, "again"):
        pass  # in the same namespace: the process is gone
    monkeypatch.setattr(store_leases, "_process_ids", lambda: "pid:[1]")
    with leases(server, "third"):
        monkeypatch.setattr(store_leases, "_process_ids", lambda: "pid:[2]")
        with pytest.raises(LeaseHeldError, match="its lease ends in"):
            leases(server, "fourth").__enter__()
    first._ended.set()
