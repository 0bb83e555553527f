"""Which broker is in force, with which options, and what is said when none answers."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from common.config.settings import Settings, load_settings
from common.declare import Pipeline, Topic
from common.errors import BrokerError, PipelineError
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka import refusals
from orchestration.access.kafka.client_options import librdkafka_options

SERVERS = "bootstrap.servers"


def settings(*overrides: str) -> Settings:
    return load_settings(file=Path(os.devnull), overrides=overrides)


def pipeline(*topics: dict[str, str], **options: str) -> Pipeline:
    declared = [Topic(f"t{number}", kafka=kafka) for number, kafka in enumerate(topics or [{}])]
    return Pipeline(
        "p", bronze=declared, kafka={name.replace("_", "."): text for name, text in options.items()}
    )


@pytest.mark.parametrize(
    ("declared", "overrides", "address"),
    [
        (pipeline(), (), None),
        (pipeline({SERVERS: "topic:1"}), (), "topic:1"),
        (pipeline({SERVERS: "topic:1"}, {SERVERS: "topic:1"}), (), "topic:1"),
        (pipeline({SERVERS: "topic:1"}, {}, bootstrap_servers="pipeline:1"), (), "pipeline:1"),
        (pipeline(bootstrap_servers="pipeline:1"), ("kafka.bootstrap_servers=set:1",), "set:1"),
        (pipeline(bootstrap_servers="pipeline:1"), ("kafka.options.bootstrap.servers=option:1",), "option:1"),
    ],
)
def test_settings_win_over_the_pipeline_and_it_over_its_topics(
    declared: Pipeline, overrides: tuple[str, ...], address: str | None
) -> None:
    assert kafka.named_broker(declared, settings(*overrides)) == address


@pytest.mark.parametrize("other", [{}, {SERVERS: "b:1"}])
def test_topics_on_different_brokers_are_refused(other: dict[str, str]) -> None:
    with pytest.raises(PipelineError, match=r"different brokers \(bronze.t0: a:1, bronze.t1: "):
        kafka.named_broker(pipeline({SERVERS: "a:1"}, other), settings())


def test_client_options_are_merged_without_the_address() -> None:
    declared = pipeline({"client.id": "topic", SERVERS: "x:1"}, client_id="pipeline", check_crcs="true")
    chosen = settings("kafka.options.check.crcs=false")
    assert kafka.client_options(chosen, declared, declared.bronze[0]) == {
        "client.id": "topic",
        "check.crcs": "false",
    }
    assert kafka.client_options(chosen, declared) == {"client.id": "pipeline", "check.crcs": "false"}


def test_a_refused_connection_is_told_with_address_and_cause(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokerError, match=r"answered at 127\.0\.0\.1:1 within 0\.5 s: .*Connection refused"):
        kafka.wait_reachable("127.0.0.1:1", {}, 0.5)
    assert capfd.readouterr().err == ""


def test_a_server_that_never_answers_is_not_waited_for_longer_than_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BrokerError, match=f"No Kafka broker answered at {address} within 0.5 s"):
            kafka.wait_reachable(address, {}, 0.5)
        assert not kafka.is_ready(address, 0.5)


def test_an_option_of_the_jvms_client_alone_is_left_out_unless_it_secures() -> None:
    with pytest.raises(BrokerError, match="Connection refused"):
        kafka.wait_reachable("127.0.0.1:1", {"max.poll.records": "5"}, 0.3)
    with pytest.raises(
        BrokerError, match=r'No such configuration property: "ssl.secure.random.implementation"'
    ):
        kafka.wait_reachable("127.0.0.1:1", {"ssl.secure.random.implementation": "x"}, 0.3)


def test_a_token_endpoint_that_never_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/token"
        options = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "swordfish",
            "sasl.oauthbearer.token.endpoint.url": url,
        }
        with pytest.raises(BrokerError, match=f"No token .* at 127.0.0.1:1: {url} does not answer") as failed:
            kafka.wait_reachable("127.0.0.1:1", options, 0.5)
    assert "swordfish" not in str(failed.value)


LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required "


@pytest.mark.parametrize(
    ("options", "fitted"),
    [
        ({"security.protocol": "SSL"}, {"security.protocol": "SSL"}),
        (
            {"sasl.jaas.config": LOGIN + r'username="a" password="b\"c d";'},
            {"sasl.username": "a", "sasl.password": 'b"c d'},
        ),
        (
            {"sasl.jaas.config": "whatever", "sasl.username": "a", "sasl.password": "b"},
            {"sasl.username": "a", "sasl.password": "b"},
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": 'x.Module required clientId="me" clientSecret="s" scope="k";',
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
                "sasl.login.callback.handler.class": "x.OAuthBearerLoginCallbackHandler",
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "k",
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
            },
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem", "ssl.key.password": "s"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "s"},
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "s"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "s"},
        ),
        (
            {
                "ssl.truststore.certificates": "CA",
                "ssl.keystore.key": "K",
                "ssl.keystore.certificate.chain": "C",
            },
            {"ssl.ca.pem": "CA", "ssl.key.pem": "K", "ssl.certificate.pem": "C"},
        ),
        ({"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.3"}, {}),
    ],
)
def test_javas_security_options_become_librdkafkas(options: dict[str, str], fitted: dict[str, str]) -> None:
    assert librdkafka_options(options) == fitted


@pytest.mark.parametrize("option", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_jks_store_is_refused_in_words(option: str) -> None:
    with pytest.raises(
        BrokerError, match=f"kafka option {option}: the engine's own client reads no JKS store"
    ):
        librdkafka_options({option: "/store.jks"})


def test_a_login_that_cannot_be_read_is_refused_without_its_secret() -> None:
    with pytest.raises(BrokerError, match=r"sasl\.jaas\.config has no username and password") as refused:
        librdkafka_options({"sasl.jaas.config": 'Some.Module required clientSecret="hush";'})
    assert "hush" not in str(refused.value)
