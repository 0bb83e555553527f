"""A Kafka login written once, by librdkafka's names, for Kafka's Java clients.

The engine's own client, librdkafka, takes ``sasl.username`` and ``sasl.password`` as they are, and also
``sasl.oauthbearer.client.id`` and ``sasl.oauthbearer.client.secret``. Java's clients, which Spark uses, take
the same login as ``sasl.jaas.config`` and ignore these options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from common.config.references import resolve

_USERNAME, _PASSWORD, _JAAS = "sasl.username", "sasl.password", "sasl.jaas.config"

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

CLIENT_ID, CLIENT_SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  # the name of an option

_SCOPE, _EXTENSIONS = "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"
ENDPOINT_CA = "https.ca.location"
_METHOD = "sasl.oauthbearer.method"

_TOKEN_DEFAULTS = {
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    ),
    # Without them a client waits forever for a token endpoint that never answers.
    "sasl.login.connect.timeout.ms": "10000",
    "sasl.login.read.timeout.ms": "10000",
}


def java_options(options: Mapping[str, str]) -> dict[str, str]:
    """Client options as Kafka's Java clients have them; references are resolved.

    Raises:
        SettingsError: A reference cannot be resolved.
    """
    found = resolve(options, "kafka option")
    username, password = found.pop(_USERNAME, None), found.pop(_PASSWORD, None)
    oauth = {
        name: found.pop(name)
        for name in (CLIENT_ID, CLIENT_SECRET, _SCOPE, _EXTENSIONS, _METHOD, ENDPOINT_CA)
        if name in found
    }
    if _JAAS not in found and {CLIENT_ID, CLIENT_SECRET} <= oauth.keys():
        found = {**_TOKEN_DEFAULTS, **found, _JAAS: _jaas(_OAUTH, dict(_token_login(oauth)))}
    elif _JAAS not in found and username is not None and password is not None:
        mechanism = found.get("sasl.mechanism", found.get("sasl.mechanisms", "PLAIN")).upper()
        module = _SCRAM if mechanism.startswith("SCRAM") else _PLAIN
        found[_JAAS] = _jaas(module, {"username": username, "password": password})
    if "sasl.mechanisms" in found:
        found.setdefault("sasl.mechanism", found.pop("sasl.mechanisms"))
    return found


def _token_login(oauth: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The login at a token endpoint, by the names of Java's JAAS text."""
    yield "clientId", oauth[CLIENT_ID]
    yield "clientSecret", oauth[CLIENT_SECRET]
    if scope := oauth.get(_SCOPE):
        yield "scope", scope
    for extension in filter(None, oauth.get(_EXTENSIONS, "").split(",")):
        name, _, value = extension.partition("=")
        yield f"extension_{name.strip()}", value
    if certificates := oauth.get(ENDPOINT_CA):
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.location", certificates


def _jaas(module: str, login: Mapping[str, str]) -> str:
    words = " ".join(f'{name}="{_quoted(value)}"' for name, value in login.items())
    return f"{module} required {words};"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
