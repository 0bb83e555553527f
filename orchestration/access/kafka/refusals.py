"""Why a broker refuses a client: a login or a certificate, in words. Trying again would not help."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping

from confluent_kafka import KafkaError

from common.config.kafka_login import ENDPOINT_CA, TOKEN_ENDPOINT

_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001  # their public names
_SECONDS = 5.0


def is_refused(error: KafkaError) -> bool:
    """Whether a connection failed for its login or its certificates, so that another try fails alike."""
    return error.code() in _REFUSED


def certificate_fault(bootstrap: str, options: Mapping[str, str]) -> str | None:
    """What is wrong with the broker's certificate; None if nothing is, or nothing can be found out.

    librdkafka says only that a certificate could not be verified, whatever the reason is.

    Args:
        bootstrap: ``host:port[,host:port…]``; the first address is tried.
        options: Client options under librdkafka's names.
    """
    host, _, port = bootstrap.split(",", maxsplit=1)[0].strip().rpartition(":")
    host = host.strip("[]")
    try:
        context = ssl.create_default_context(
            cafile=options.get("ssl.ca.location"), cadata=options.get("ssl.ca.pem")
        )
        with (
            socket.create_connection((host, int(port)), _SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of {host}:{port} is not accepted: {error.verify_message}"
    except (OSError, ValueError):
        return None


def endpoint_fault(options: Mapping[str, str]) -> str | None:
    """Why the token endpoint does not answer; None if it answers, or the options name none.

    librdkafka waits longer for an endpoint that never answers than a start waits for the broker.

    Args:
        options: Client options under librdkafka's names.
    """
    url = options.get(TOKEN_ENDPOINT, "")
    if not url.startswith(("http://", "https://")):
        return None
    try:
        context = ssl.create_default_context(cafile=options.get(ENDPOINT_CA))
        with urllib.request.urlopen(url, timeout=_SECONDS, context=context):  # noqa: S310  # http and https
            return None
    except urllib.error.HTTPError:
        return None  # it answers: only a POST with a login gets a token
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {getattr(error, 'reason', error)}"
