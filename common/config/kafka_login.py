"""A Kafka login written once, as ``sasl.username`` and ``sasl.password``, for Kafka's Java clients.

librdkafka, the engine's own client, takes the two options as they are. Java's clients, which Spark uses, take
the same login as ``sasl.jaas.config`` and ignore the two options.
"""

from __future__ import annotations

from collections.abc import Mapping

from common.config.references import resolve

_USERNAME, _PASSWORD, _JAAS = "sasl.username", "sasl.password", "sasl.jaas.config"

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def java_options(options: Mapping[str, str]) -> dict[str, str]:
    """Client options as Kafka's Java clients have them; references are resolved.

    Raises:
        SettingsError: A reference cannot be resolved.
    """
    found = resolve(options, "kafka option")
    username, password = found.pop(_USERNAME, None), found.pop(_PASSWORD, None)
    if _JAAS not in found and username is not None and password is not None:
        mechanism = found.get("sasl.mechanism", found.get("sasl.mechanisms", "PLAIN")).upper()
        module = _SCRAM if mechanism.startswith("SCRAM") else _PLAIN
        found[_JAAS] = f'{module} required username="{_quoted(username)}" password="{_quoted(password)}";'
    if "sasl.mechanisms" in found:
        found.setdefault("sasl.mechanism", found.pop("sasl.mechanisms"))
    return found


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
