"""TLS, mutual TLS, SASL PLAIN, SCRAM, OAUTHBEARER: all clients connect, and each refusal is one clear line.

The four clients are the admin client, the producer and the consumer of the engine, and Spark's source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

import bronze.query
from common.config.settings import SupervisionSettings, load_settings
from common.declare import Message, Pipeline, Topic
from common.errors import BrokerError, MedallionError, TransientFailureError
from common.streaming.topic_identity import TopicIdentity
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.connectivity import probe_broker
from orchestration.access.kafka.producer import produce
from orchestration.access.kafka.topic_sample import sample
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.job import open_broker, require_topics
from orchestration.run.supervisor import StopSignal, Supervisor
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.servers.secured_kafka import PASSWORD, SecuredKafka, secured_kafka

pytestmark = pytest.mark.long

MOST_SECONDS = 60  # 30 on a quiet machine
MESSAGES = [Message(b"%d" % n, b'{"n": %d}' % n) for n in range(20)]

Options = Callable[[SecuredKafka], dict[str, str]]

WAYS: dict[str, tuple[str, Options]] = {
    "TLS": ("tls", lambda it: it.tls()),
    "mutual TLS": ("mtls", lambda it: it.mutual_tls()),
    "PLAIN": ("login", lambda it: it.login("PLAIN", "reader", "env:KAFKA_PASSWORD")),
    "SCRAM": ("login", lambda it: it.login("SCRAM-SHA-512", "reader", "env:KAFKA_PASSWORD")),
    "OAUTHBEARER": ("login", lambda it: it.token_login("reader", "env:KAFKA_PASSWORD")),
}
REFUSALS: dict[str, tuple[str, Options, str]] = {
    "wrong password, PLAIN": (
        "login",
        lambda it: it.login("PLAIN", "reader", "env:WRONG_PASSWORD"),
        "Invalid username or password",
    ),
    "wrong password, SCRAM": (
        "login",
        lambda it: it.login("SCRAM-SHA-512", "reader", "env:WRONG_PASSWORD"),
        "invalid credentials",
    ),
    "expired certificate": ("expired", lambda it: it.tls(), "expired"),
    "another host's certificate": ("elsewhere", lambda it: it.tls(), "mismatch"),
    "no certificate of its own": (
        "mtls",
        lambda it: it.tls(),
        "certificate|handshake|alert|ssl|disconnected",
    ),
}
NO_TOKEN: dict[str, tuple[str, Callable[[SecuredKafka], str], str]] = {
    "wrong secret": ("env:WRONG_PASSWORD", lambda it: f"{it.tokens.https}/token", "invalid_client|401"),
    "unreachable endpoint": ("env:KAFKA_PASSWORD", lambda it: "https://127.0.0.1:1/token", "connect"),
}


@pytest.fixture(autouse=True)
def _passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    monkeypatch.setenv("WRONG_PASSWORD", "swordfish-8")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """The broker of this module."""
    folder = tmp_path_factory.mktemp("secured")
    with secured_kafka(folder / "kafka", load_settings(overrides=[f"data_dir={folder}"])) as running:
        yield running


@pytest.fixture(scope="module")
def names() -> Iterator[int]:
    """Numbers for topic names."""
    return count()


@pytest.fixture
def new_secured_topic(secured: SecuredKafka, names: Iterator[int]) -> str:
    """A new topic with two partitions."""
    name = f"orders_{next(names)}"
    admin = secured.admin()
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    return name


def engine(spark: Any, folder: Path, address: str, topic: str, options: dict[str, str]) -> Engine:
    folder.mkdir(exist_ok=True)
    pipeline = Pipeline(name="shop", bronze=[Topic("orders", topics=[topic])])
    given = [f"kafka.options.{name}={value}" for name, value in options.items()]
    return Engine(spark, pipeline, make_settings(folder, address, *given), address)


@pytest.mark.parametrize("way", WAYS)
def test_all_clients_connect(
    way: str, spark: Any, secured: SecuredKafka, new_secured_topic: str, tmp_path: Path
) -> None:
    listener, make = WAYS[way]
    address, options, topic = secured.address(listener), make(secured), new_secured_topic
    if way == "TLS":
        # This listener knows its clients as ANONYMOUS, who may do everything.
        assert probe_broker(address, options, 20).fault == ""
    run = engine(spark, tmp_path, address, topic, options)
    with open_broker(run.pipeline, run.settings) as found:
        assert found == address
    require_topics(run.pipeline, run.settings, address)
    produced = produce(iter(MESSAGES), bootstrap_servers=address, topic=topic, options=options)
    assert produced.messages == len(MESSAGES)
    assert sum(kafka.end_offsets(address, [topic], options)[topic].values()) == len(MESSAGES)
    assert len(sample(address, topic, options, 100)) == len(MESSAGES)
    run.run("bronze")
    assert sorted(row["value"] for row in run.rows("bronze.orders")) == sorted(m.value for m in MESSAGES)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_is_one_clear_line(
    refusal: str, spark: Any, secured: SecuredKafka, new_secured_topic: str, tmp_path: Path
) -> None:
    listener, make, says = REFUSALS[refusal]
    address, options = secured.address(listener), make(secured)
    run = engine(spark, tmp_path, address, new_secured_topic, options)
    _refused(lambda: _open(run), rf"{address}.*(?i:{says})", "kafka.options")
    _refused(lambda: read_by_spark(run, options), f"Kafka at {address}", "kafka.options")


@pytest.mark.parametrize("fault", NO_TOKEN)
def test_a_token_that_is_not_given_is_one_clear_line(
    fault: str, spark: Any, secured: SecuredKafka, new_secured_topic: str, tmp_path: Path
) -> None:
    secret, endpoint, says = NO_TOKEN[fault]
    address, topic = secured.address("login"), new_secured_topic
    options = secured.token_login("reader", secret, endpoint(secured))
    run = engine(spark, tmp_path, address, topic, options)
    _refused(lambda: _open(run), rf"No token .*{address}: .*(?i:{says})", "sasl.oauthbearer.client.id")
    sending = partial(produce, iter(MESSAGES), bootstrap_servers=address, topic=topic, options=options)
    _refused(sending, rf"{address}.*(?i:{says})", "")
    failure = _refusal(
        lambda: read_by_spark(run, options), f"token endpoint: it gave no token .*Kafka at {address}"
    )
    assert isinstance(failure, TransientFailureError)  # a running job tries again
    assert "sasl.oauthbearer.client.id" in str(failure)


def test_a_login_without_permissions_is_told_which_one_is_missing(
    spark: Any, secured: SecuredKafka, new_secured_topic: str, tmp_path: Path
) -> None:
    """A topic that a user may not see does not exist for the user."""
    address, topic = secured.address("login"), new_secured_topic
    unseen = engine(spark, tmp_path / "a", address, topic, secured.login("PLAIN", "nobody", PASSWORD))
    _refused(
        lambda: _open(unseen), f"topic {topic} does not exist at {address}, or this user may not see it", ""
    )
    options = secured.login("SCRAM-SHA-512", "watcher", PASSWORD)
    unread = engine(spark, tmp_path / "b", address, topic, options)
    sending = partial(produce, iter(MESSAGES), bootstrap_servers=address, topic=topic, options=options)
    _refused(sending, f"Topic {topic} at {address}", "may write")
    produce(iter(MESSAGES), bootstrap_servers=secured.address("internal"), topic=topic, options={})
    _refused(lambda: read_by_spark(unread, options), rf"Not authorized to access topics: \[{topic}\]", "ACL")


def read_by_spark(run: Engine, options: dict[str, str]) -> None:
    """Read the topic by Spark's source, without the engine's own client, which would be refused first."""
    (topic,) = run.pipeline.bronze
    stream = bronze.query.build_query(
        run.spark,
        "shop",
        topic,
        settings=run.settings,
        layout=run.layout,
        bootstrap_servers=run.broker,
        client=options,
        identity=TopicIdentity(topic.table, {}, lambda new: {}),
    )
    policy = RestartPolicy.of(SupervisionSettings(fail_fast=True))
    supervisor = Supervisor(run.spark, StopSignal(), stop_timeout_seconds=60, policy=policy)
    supervisor.start(iter([stream]), available_now=True)
    supervisor.run()


def _open(run: Engine) -> None:
    with open_broker(run.pipeline, run.settings) as address:
        require_topics(run.pipeline, run.settings, address)


def _refused(attempt: Callable[[], Any], what: str, remedy: str) -> None:
    failure = _refusal(attempt, what)
    assert isinstance(failure, BrokerError)
    assert remedy in str(failure)


def _refusal(attempt: Callable[[], Any], what: str) -> MedallionError:
    began = time.monotonic()
    with pytest.raises(MedallionError, match=what) as refused:
        attempt()
    assert time.monotonic() - began < MOST_SECONDS
    assert "\n" not in str(refused.value)
    assert "swordfish" not in str(refused.value)
    return refused.value
