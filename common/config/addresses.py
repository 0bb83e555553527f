"""Addresses and masters of settings that cannot work are refused where the settings are read."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from common.errors import closest

_LOOPBACK = "127.0.0.1"
_LAST_PORT = 65_535
_BROKER = re.compile(r"(?:[\w.%-]*://)?(?:\[[\da-fA-F:.%\w]+\]|[^\s:/\[\]@]+):(\d+)")
_MASTER = re.compile(
    r"local|local\[(?:\*|\d+)(?:\s*,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|[\w-]+://\S+"
)
_MASTERS = ("local[*]", "local", "yarn", "spark://host:7077", "k8s://https://host:6443")


def split_address(text: str) -> tuple[str, int] | None:
    """Host and port of ``host:port``, ``[::1]:port``, ``:port`` or ``port``; without a host, loopback.

    ``None`` where the text is no address.
    """
    host, _, port = text.strip().rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > _LAST_PORT:
        return None
    return host.removeprefix("[").removesuffix("]") or _LOOPBACK, int(port)


def broker_fault(text: str) -> str:
    """What is wrong with the addresses of brokers; empty where nothing is."""
    for each in text.split(","):
        found = _BROKER.fullmatch(each.strip())
        if found is None or not 0 < int(found[1]) <= _LAST_PORT:
            without = each.strip() and ":" not in each
            hint = f"{each.strip()}:9092" if without else "broker1:9092,broker2:9092"
            return f"{each.strip()!r} is no host:port; write it like {hint}"
    return ""


def _brokers(text: str | None) -> str | None:
    if text and not text.startswith(("env:", "file:/")) and (fault := broker_fault(text)):
        raise ValueError(fault)
    return text


def _listens(text: str | None) -> str | None:
    if text is not None and split_address(text) is None:
        raise ValueError("expected host:port, such as 127.0.0.1:8484, or a port alone")
    return text


def _master(text: str) -> str:
    if _MASTER.fullmatch(text.strip()) is None:
        near = closest(text, _MASTERS)
        raise ValueError(
            "expected a master of Spark: local[*] for this machine, yarn, spark://host:port or k8s://https://…"
            + (f"; did you mean {near!r}?" if near else "")
        )
    return text


BrokerAddresses = Annotated[str | None, AfterValidator(_brokers)]
ListenAddress = Annotated[str | None, AfterValidator(_listens)]
Master = Annotated[str, AfterValidator(_master)]
