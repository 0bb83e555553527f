"""Has the job that holds a table's lease do a command's work, where there is one: its session is warm."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from common.delta.lease.lease_holder import Holder, find_holder
from common.machine.console import say
from orchestration.access.channel.client import ask, fingerprint
from orchestration.access.channel.protocol import Request
from orchestration.access.declaration.context import Context


def holders(ready: Context, tables: Sequence[str]) -> dict[Holder, list[str]]:
    """The processes of this machine that hold leases of these tables, each with its tables."""
    found: dict[Holder, list[str]] = {}
    for table in tables:
        holder = find_holder(ready.layout.leases, table)
        if holder is not None and holder.host == socket.gethostname():
            found.setdefault(holder, []).append(table)
    return found


def ask_job(ready: Context, pid: int, operation: str, arguments: Mapping[str, Any]) -> Any:
    """The result, as JSON, of work that a job does; None where the command has to do it itself.

    Raises:
        MedallionError: The job could not do the work, for the reason that the command itself would give.
    """
    request = Request(operation, arguments, fingerprint(ready.settings.pipeline))
    return ask(ready.layout.channel, pid, request, say)


def ask_holder(ready: Context, tables: Sequence[str], operation: str, arguments: Mapping[str, Any]) -> Any:
    """As ``ask_job``, of the job that holds the lease of the first of these tables that any job holds."""
    for holder in holders(ready, tables):
        return ask_job(ready, holder.pid, operation, arguments)
    return None
