"""Translates Kafka client options from the names of Kafka's Java clients to those of librdkafka.

A pipeline declares its options once. Spark's source uses Kafka's Java client, the engine's own client uses
librdkafka, and the two name the options of a secured connection differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from common.config.kafka_login import CLIENT_ID, TOKEN_ENDPOINT
from common.config.references import resolve
from common.errors import BrokerError

_Client = TypeVar("_Client")

_UNKNOWN_OPTION = re.compile(r'No such configuration property: "([^"]+)"')

_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.enabled.protocols": "",
    "ssl.protocol": "",
    "sasl.client.callback.handler.class": "",
}
"""Java's name to librdkafka's name; empty: the option is left out, librdkafka's default is fine."""

_OIDC = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
"""Names in the JAAS text of an OAUTHBEARER login, and librdkafka's ``sasl.oauthbearer.…``."""

_CREDENTIAL = re.compile(
    r'(username|password|clientId|clientSecret|scope)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))'
)


def librdkafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """The same options under librdkafka's names; options with the same name in both are not changed.

    References to secrets are resolved: keep what this function returns out of messages and files.

    Raises:
        BrokerError: librdkafka cannot use a key store or a login of this kind.
        SettingsError: A reference to a secret cannot be resolved.
    """
    options = resolve(options, "kafka option")
    translated: dict[str, str] = {}
    for name, value in options.items():
        if name == "sasl.jaas.config":
            translated |= {} if {"sasl.username", CLIENT_ID} & options.keys() else _login(value)
        elif name.startswith("sasl.login."):
            continue  # how Java's clients fetch a token, and how often
        elif name == TOKEN_ENDPOINT:
            translated |= {"sasl.oauthbearer.method": "oidc", name: value}
        elif name.startswith("ssl.truststore.") and name not in _RENAMED:
            translated |= _trust(name, value, options)
        elif name.startswith("ssl.keystore.") and name.endswith((".type", ".location")):
            translated |= _keys(name, value, options)
        elif name in _RENAMED:
            translated |= {_RENAMED[name]: value} if _RENAMED[name] else {}
        else:
            translated[name] = value
    return translated


def _login(jaas: str) -> dict[str, str]:
    found = {
        name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _CREDENTIAL.findall(jaas)
    }
    if {"clientId", "clientSecret"} <= found.keys():
        return {f"sasl.oauthbearer.{_OIDC[name]}": value for name, value in found.items() if name in _OIDC}
    if not {"username", "password"} <= found.keys():
        # The message must not contain the value, which is a secret.
        raise BrokerError(
            "kafka option sasl.jaas.config has no username and password, and the engine's own client knows "
            "no other login. Use PLAIN or SCRAM with both, or give sasl.username and sasl.password too."
        )
    return {f"sasl.{name}": found[name] for name in ("username", "password")}


def _trust(name: str, value: str, options: Mapping[str, str]) -> dict[str, str]:
    if name != "ssl.truststore.location":
        return {}
    if options.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise BrokerError(_advice("ssl.truststore.location", "PEM", "ssl.truststore.type=PEM"))
    return {"ssl.ca.location": value}


def _keys(name: str, value: str, options: Mapping[str, str]) -> dict[str, str]:
    if name != "ssl.keystore.location":
        return {}
    kind = options.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if kind == "PKCS12":
        return {"ssl.keystore.location": value}
    raise BrokerError(_advice("ssl.keystore.location", "PEM or PKCS12", "ssl.keystore.type"))


def _advice(option: str, kinds: str, setting: str) -> str:
    return (
        f"kafka option {option}: the engine's own client reads no JKS store. Give it as {kinds} and set "
        f"{setting}; Spark's client reads that too."
    )


def create_client(client: Callable[[dict[str, Any]], _Client], config: dict[str, Any]) -> _Client:
    """Create a client of confluent_kafka. Options that only Kafka's Java clients know are left out.

    An unknown security option is never left out.

    Raises:
        BrokerError: An option does not fit.
    """
    while True:
        try:
            return client(config)
        except KafkaException as error:
            reason = error.args[0].str()
            unknown = _UNKNOWN_OPTION.search(reason)
            if unknown and unknown[1] in config and not unknown[1].startswith(("ssl.", "sasl.", "security.")):
                del config[unknown[1]]
                continue
            raise BrokerError(
                f"A Kafka client option does not fit: {reason}. "
                "Options come from the setting kafka.options and from kafka=… in the pipeline."
            ) from error
