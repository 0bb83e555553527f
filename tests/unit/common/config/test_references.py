"""Secrets by reference: resolved where a client gets them, and in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from bronze.kafka_options import options
from common.config.kafka_login import java_options
from common.config.references import is_reference, registry_login, resolve
from common.config.settings import BronzeSettings, load_settings
from common.declare import Topic
from common.errors import SettingsError
from common.spark.session import session_conf
from orchestration.access.kafka.client_options import librdkafka_options
from orchestration.install.machine.doctor import PROBES

CANARY = 'sword"fish\\ 7'


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)


def test_a_file_counts_without_its_last_line_break(tmp_path: Path) -> None:
    file = tmp_path / "pass word"
    file.write_text(f"{CANARY}\n")
    given = {"ssl.key.password": f"file:{file}", "sasl.password": file.as_uri(), "a": "env:CANARY", "b": "c"}
    assert resolve(given, "kafka option") == {
        "ssl.key.password": CANARY,
        "sasl.password": CANARY,
        "a": CANARY,
        "b": "c",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.eventLog.dir", "file:/tmp/events"),
        ("spark.sql.warehouse.dir", "file:///tmp/warehouse"),
        ("spark.jars", "file:/a.jar,file:/b.jar"),
        ("sasl.oauthbearer.token.endpoint.url", "file:///token"),
        ("ssl.truststore.location", "/etc/ca.pem"),
        ("sasl.password", "hunter2"),
        ("sasl.password", "file name"),
    ],
)
def test_a_value_of_its_own_is_no_reference(name: str, value: str) -> None:
    """A setting that was right before stays what it was."""
    assert not is_reference(name, value)
    assert resolve({name: value}, "x") == {name: value}


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "env:NO_SUCH",
            r"kafka option sasl.password is env:NO_SUCH: the environment variable NO_SUCH is not",
        ),
        ("file:/no/such", r"sasl.password is file:/no/such: the file cannot be read \(No such file"),
    ],
)
def test_a_reference_to_nothing_is_named(reference: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        resolve({"sasl.password": reference}, "kafka option")


def test_settings_hold_the_reference_and_clients_get_the_value() -> None:
    settings = load_settings(overrides=["kafka.options.sasl.password=env:CANARY"])
    assert CANARY not in repr(settings)
    assert CANARY not in settings.model_dump_json()
    assert librdkafka_options(settings.kafka.options) == {"sasl.password": CANARY}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_one_login_serves_both_clients(mechanism: str, module: str) -> None:
    """Java's client takes it as a JAAS text, in which quotes and backslashes are escaped."""
    login = {"sasl.mechanism": mechanism, "sasl.username": "me", "sasl.password": "env:CANARY"}
    chosen = options(Topic("quakes"), BronzeSettings(), "b:1", login)
    jaas = chosen["kafka.sasl.jaas.config"]
    assert jaas == (
        f'org.apache.kafka.common.security.{module} required username="me" password="sword\\"fish\\\\ 7";'
    )
    assert not {"kafka.sasl.username", "kafka.sasl.password"} & chosen.keys()
    assert librdkafka_options({"sasl.jaas.config": jaas}) == {
        "sasl.username": "me",
        "sasl.password": CANARY,
    }


def test_one_token_login_serves_both_clients() -> None:
    """Java's client takes it as a JAAS text; the token endpoint's certificates go there too."""
    login = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "env:CANARY",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=a,pool=b=c",
        "sasl.oauthbearer.token.endpoint.url": "https://id/token",
        "https.ca.location": "/ca.pem",
        "sasl.login.read.timeout.ms": "5000",
    }
    java = java_options(login)
    assert java == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="me" clientSecret="sword\\"fish\\\\ 7" scope="kafka" extension_logicalCluster="a" '
            'extension_pool="b=c" ssl.truststore.type="PEM" ssl.truststore.location="/ca.pem";'
        ),
        "sasl.oauthbearer.token.endpoint.url": "https://id/token",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.login.connect.timeout.ms": "10000",
        "sasl.login.read.timeout.ms": "5000",
    }
    own = {name: value for name, value in login.items() if not name.startswith("sasl.login.")}
    assert librdkafka_options(login) == own | {
        "sasl.oauthbearer.client.secret": CANARY,
        "sasl.oauthbearer.method": "oidc",
    }


@pytest.mark.parametrize(
    ("login", "what"),
    [
        ("Bearer se\ncret", "line break"),
        ("Bearer se\r\n cret", "line break"),
        ("me:se\0cret", "control character"),
        ("Bearer s\u00e9cret", "not ASCII"),
    ],
)
def test_a_login_of_the_registry_that_cannot_be_sent_is_told_without_it(
    tmp_path: Path, login: str, what: str
) -> None:
    file = tmp_path / "login"
    file.write_text(f"{login}\n", encoding="utf-8", newline="")
    with pytest.raises(SettingsError, match=what) as told:
        registry_login(f"file:{file}")
    assert f"silver.schema_registry_login is file:{file}" in str(told.value)
    assert "in one line" in str(told.value)
    assert "cret" not in str(told.value)


@pytest.mark.parametrize("login", ["Bearer secret", "me:s\u00e9cret with: blanks"])
def test_a_login_of_the_registry_counts_without_line_breaks_around_it(tmp_path: Path, login: str) -> None:
    file = tmp_path / "login"
    file.write_text(f"{login}\r\n\n", encoding="utf-8", newline="")
    assert registry_login(f"file:{file}") == login


def test_the_doctor_names_secrets_that_are_no_reference() -> None:
    plain = ["kafka.options.sasl.password=hunter2", "spark.conf.spark.hadoop.fs.azure.account.key.x=hunter3"]
    referred = ["kafka.options.ssl.key.password=env:X", "spark.conf.spark.hadoop.fs.s3a.secret.key=file:/x"]
    other = [
        "kafka.options.sasl.login.callback.handler.class=a.B",
        "kafka.options.ssl.truststore.location=/a",
    ]
    findings = list(PROBES["secrets"](load_settings(overrides=[*plain, *referred, *other])))
    places = "kafka.options.sasl.password, spark.conf.spark.hadoop.fs.azure.account.key.x"
    assert [(finding.state, finding.value) for finding in findings] == [("warn", f"held by {places}")]
    assert list(PROBES["secrets"](load_settings(overrides=[*referred, *other]))) == []


def test_a_login_of_the_users_own_stays() -> None:
    own = {"sasl.jaas.config": "x", "sasl.username": "me", "sasl.password": "p", "client.id": "c"}
    assert java_options(own) == {"sasl.jaas.config": "x", "client.id": "c"}


def test_spark_gets_the_value_and_hides_it_under_any_name(tmp_path: Path) -> None:
    own = {"spark.hadoop.vault.word": "env:CANARY", "spark.redaction.regex": "(?i)mine"}
    settings = load_settings(overrides=[f"spark.conf.{name}={value}" for name, value in own.items()])
    conf = session_conf(settings, "app", tmp_path, [], [], {})
    assert conf["spark.hadoop.vault.word"] == CANARY
    assert conf["spark.redaction.regex"].endswith(r"|mine|^(spark\.hadoop\.)?vault\.word$")
    assert conf["spark.redaction.regex"].startswith("(?i)secret|password")
