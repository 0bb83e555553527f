"""Tests whether a Kafka broker answers the engine's client."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import BrokerError
from orchestration.access.kafka.client_options import create_client, librdkafka_options


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe."""

    seconds: float  # duration of the probe
    brokers: int = 0  # number of brokers in the cluster
    topics: int = 0  # number of topics that this client may see
    fault: str = ""  # the reason why the broker did not answer, in one line; empty if it answered


def probe_broker(servers: str, options: Mapping[str, str], patience_seconds: float) -> ProbeResult:
    """List a broker's topics; faults of the broker or of the options are in the result, never raised."""
    from confluent_kafka import KafkaException  # loading its native library would slow down other commands
    from confluent_kafka.admin import AdminClient

    started = time.monotonic()
    last: list[str] = []
    quiet = logging.Logger("kafka")  # noqa: LOG001  # without a logger of its own, the client logs to stderr
    quiet.addHandler(logging.NullHandler())
    config: dict[str, Any] = {
        **librdkafka_options(options),
        "bootstrap.servers": servers,
        "error_cb": lambda error: last.append(error.str()),
    }
    try:
        client = create_client(lambda given: AdminClient(given, logger=quiet), config)
    except (BrokerError, TypeError) as error:
        return ProbeResult(0, fault=f"the client refuses its options ({_cause(error)})")
    try:
        metadata = client.list_topics(timeout=patience_seconds)
    except KafkaException as error:
        cause = last[-1] if last else _cause(error)
        return ProbeResult(
            time.monotonic() - started, fault=f"no answer in {patience_seconds:.0f} s ({cause})"
        )
    return ProbeResult(time.monotonic() - started, len(metadata.brokers), len(metadata.topics))


def _cause(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if hasattr(first, "str") else str(first)
