"""Whether a Kafka broker answers, asked as any of the engine's clients would."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker said.

    Attributes:
        seconds: How long it took.
        brokers: How many brokers its cluster has.
        topics: How many topics this client may see.
        fault: Why there was no answer, in one line; empty where there was one.
    """

    seconds: float
    brokers: int = 0
    topics: int = 0
    fault: str = ""


def ask(servers: str, options: Mapping[str, str], patience_seconds: float) -> Answer:
    """Ask a broker for its topics; never raises for what the broker or the options cause."""
    from confluent_kafka import KafkaException  # its native library must not slow other commands
    from confluent_kafka.admin import AdminClient

    started = time.monotonic()
    last: list[str] = []
    quiet = logging.Logger("kafka")  # noqa: LOG001  # one of its own: the client would log to stderr
    quiet.addHandler(logging.NullHandler())
    config: dict[str, Any] = {
        **options,
        "bootstrap.servers": servers,
        "error_cb": lambda error: last.append(error.str()),
    }
    try:
        client = AdminClient(config, logger=quiet)
    except (KafkaException, TypeError) as error:
        return Answer(0, fault=f"the client refuses its options ({_cause(error)})")
    try:
        metadata = client.list_topics(timeout=patience_seconds)
    except KafkaException as error:
        cause = last[-1] if last else _cause(error)
        return Answer(time.monotonic() - started, fault=f"no answer in {patience_seconds:.0f} s ({cause})")
    return Answer(time.monotonic() - started, len(metadata.brokers), len(metadata.topics))


def _cause(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if hasattr(first, "str") else str(first)
