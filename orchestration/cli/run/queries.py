"""``medallion stop`` and ``medallion start``: one query of a running job, and of the jobs after it."""

from __future__ import annotations

from typing import Annotated

import typer

from common.delta.lease.lease_holder import find_holder
from common.machine.console import say
from orchestration.access.declaration.context import Context
from orchestration.access.history.stopped_queries import keep_started, keep_stopped
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named
from orchestration.cli.run.tried_remedies import tried_remedies
from orchestration.cli.warm_job import ask_holder

QueryArgument = Annotated[
    str,
    typer.Argument(
        metavar="QUERY", help="The query: its table, such as gold.latest_orders, or publish.alerts."
    ),
]


@command_named("stop")
def stop(ready: Context, query: QueryArgument, as_json: JsonOption = False) -> None:
    """Stop one query between two micro-batches, until `medallion start`; the job's other queries go on.

    Jobs that start later leave it stopped too. Nothing is lost: what it does not read waits in its source.
    """
    ready.pipeline.query(query)  # refuses a name that is not declared
    keep_stopped(ready.layout, query)
    asked = ask_holder(ready, [query], "stop", {"query": query})
    if as_json:
        print_document({"query": query, "is_stopped": True, "by_running_job": asked is not None})
        return
    if asked is not None:
        say(f"{query} is stopped")
    elif find_holder(ready.layout.leases, query) is not None:
        say(f"{query} still runs: its job could not be asked. It stops when that job ends, and stays stopped")
    else:
        say(f"{query} stays stopped when its job starts")
    say(f"to go on: medallion start {query}")


@command_named("start")
def start(ready: Context, query: QueryArgument, as_json: JsonOption = False) -> None:
    """Start a query that `medallion stop` has stopped, or that has failed for good while its job runs on."""
    ready.pipeline.query(query)  # refuses a name that is not declared
    was_stopped = keep_started(ready.layout, query)
    with tried_remedies(ready):
        asked = ask_holder(ready, [query], "start", {"query": query})
    if as_json:
        by_job = asked is not None
        print_document({"query": query, "was_stopped": was_stopped, "by_running_job": by_job})
        return
    if asked is not None:
        say(f"{query} runs already" if asked["ran"] else f"{query} is started; it goes on where it stopped")
    elif was_stopped:
        say(f"{query} goes on when its job starts")
    else:
        say(f"{query} was not stopped, and no running job could be asked to start it")
