"""What Hadoop's S3A really throws at each fault of an object store, and what becomes of a query by it.

The JVM has no Spark session: S3A's own calls are enough, and its jars are not on the session's class path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from common.config.settings import Settings
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.streaming.failure_cause import cause_of
from tests.support.servers.faulty_store import FAULTS, FaultyStore, faulty_store
from tests.unit.common.streaming.test_store_failures import expected

pytestmark = pytest.mark.long

QUICK = {
    "fs.s3a.access.key": "a",
    "fs.s3a.secret.key": "b",
    "fs.s3a.endpoint.region": "us-east-1",
    "fs.s3a.path.style.access": "true",
    "fs.s3a.connection.ssl.enabled": "false",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.interval": "20ms",
    "fs.s3a.retry.throttle.limit": "1",
    "fs.s3a.retry.throttle.interval": "20ms",
    "fs.s3a.connection.establish.timeout": "1s",
    "fs.s3a.connection.timeout": "1s",
    "fs.s3a.connection.request.timeout": "2s",
}
"""A client that gives up at its second attempt; S3A's own takes minutes until then."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaGateway]:
    """A JVM with Hadoop and S3A."""
    settings = Settings()
    hadoop = str(Path(pyspark.__file__).parent / "jars" / "*")
    jars = [hadoop, *map(str, require(settings, "spark", "s3"))]
    gateway = JavaGateway.launch_gateway(
        classpath=os.pathsep.join(jars),
        java_path=str(find_java(settings).home / "bin" / "java"),
        javaopts=["-XX:TieredStopAtLevel=1", "-Xmx256m"],
        die_on_exit=True,
    )
    yield gateway
    gateway.shutdown()


def reads(store: Any, path: Callable[[str], Any]) -> None:
    store.open(path("d/k")).readAllBytes()


def writes(store: Any, path: Callable[[str], Any]) -> None:
    store.create(path("d/k"), True).close()


def lists(store: Any, path: Callable[[str], Any]) -> None:
    store.listStatus(path("d"))


def asks(store: Any, path: Callable[[str], Any]) -> None:
    store.getFileStatus(path("d/k"))


def deletes(store: Any, path: Callable[[str], Any]) -> None:
    store.delete(path("d/k"), False)


def raised(java: JavaGateway, server: FaultyStore, call: Callable[..., None]) -> BaseException | None:
    """What S3A throws, if anything."""
    conf = java.jvm.org.apache.hadoop.conf.Configuration()
    for name, value in (QUICK | {"fs.s3a.endpoint": f"http://{server.address}"}).items():
        conf.set(name, value)
    store = java.jvm.org.apache.hadoop.fs.FileSystem.newInstance(java.jvm.java.net.URI("s3a://b/"), conf)
    try:
        call(store, lambda name: java.jvm.org.apache.hadoop.fs.Path(f"s3a://b/{name}"))
    except Py4JJavaError as error:
        return error
    finally:
        store.close()
    return None


@pytest.mark.parametrize("fault", [*FAULTS, "reset", "timeout"])
def test_a_query_is_restarted_after_a_fault_of_the_store_that_passes(java: JavaGateway, fault: str) -> None:
    with faulty_store(fault) as server:
        found = {call.__name__: raised(java, server, call) for call in (reads, writes, lists, asks, deletes)}
    assert [name for name, error in found.items() if error is None] == []
    causes = {name: cause_of(error) for name, error in found.items() if error is not None}
    wrong = {name for name, one in causes.items() if (one.kind, one.subject) not in expected(fault)}
    assert "\n".join(f"{name}: {causes[name]}: {found[name]}" for name in wrong) == ""
