"""``medallion topic create``, ``describe`` and ``tail``: topics of the pipeline's broker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from common.declare import Pipeline, Topic
from common.errors import UsageError
from common.machine.console import say
from orchestration.access.declaration.context import Context
from orchestration.access.declaration.environment import refuse_in_sandbox
from orchestration.cli.options import JsonOption

if TYPE_CHECKING:
    from orchestration.access.kafka.topics import TopicRecord
    from orchestration.author.cases.fates import Coordinates, Fate

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RECORDS = 5
_MOST_RECORDS = 1_000
_REACH_SECONDS = 10.0

app = typer.Typer(
    name="topic",
    help="Topics of the broker: create one, describe it, print its newest records.",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A topic of the broker, or a bronze table that reads one.")
]


@app.command("create")
def create(
    ready: Context,
    topic: NameArgument,
    *,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, help="Number of partitions.", show_default="the broker's"),
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option(
            "--replication", min=1, max=32_767, help="Copies of each partition.", show_default="the broker's"
        ),
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="A configuration of the topic, such as retention.ms=604800000; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a topic, and describe it; a topic that exists is refused and stays as it is."""
    from orchestration.access.kafka.topics import create_topic, describe_topic
    from orchestration.cli.access.topic_output import print_topic

    asked = parse_configs(configs or ())
    refuse_in_sandbox(ready.settings, "topic create")
    name = topic_of(ready.pipeline, topic)
    with _broker(ready, name) as (address, options):
        create_topic(address, options, name, partitions=partitions, replication=replication, configs=asked)
        say(f"topic {name} created at {address}")
        print_topic(
            describe_topic(address, options, name), address, readers(ready.pipeline, name), as_json=as_json
        )


@app.command("describe")
def describe(ready: Context, topic: NameArgument, *, as_json: JsonOption = False) -> None:
    """Print a topic's partitions, its configurations besides Kafka's defaults, and who reads it.

    It names the bronze tables of the pipeline that read the topic, also by a pattern. The end offset is the
    one after the newest committed record.
    """
    from orchestration.access.kafka.topics import describe_topic
    from orchestration.cli.access.topic_output import print_topic

    name = topic_of(ready.pipeline, topic)
    with _broker(ready, name) as (address, options):
        print_topic(
            describe_topic(address, options, name), address, readers(ready.pipeline, name), as_json=as_json
        )


@app.command("tail")
def tail(
    ready: Context,
    topic: NameArgument,
    *,
    count: Annotated[
        int,
        typer.Option(
            "--records", "-n", min=1, max=_MOST_RECORDS, metavar="N", help="Records of each partition."
        ),
    ] = _RECORDS,
    judged: Annotated[
        bool,
        typer.Option(
            "--judged",
            help="Also what each silver table would make of a record: its row, or why not.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Print the newest committed records of each partition as they were sent, oldest first.

    Keys, values and headers are text, with \xNN for bytes that are no UTF-8, and an escape for a character
    that would control the terminal. Of a long one the beginning is shown; --json prints it whole. Nothing is
    committed to Kafka.

    --judged reads them by the formats, columns and rules of the pipeline, in a Spark of its own and over
    empty tables: a record is a duplicate only of another one that is printed. No table is read or written.

    --json: a line per record: {"topic", "partition", "offset", "timestamp", "key", "value", "headers":
    [[name, value]]}; with --judged also "silver": [{"table", "verdict", "row", "reasons", "field"}].
    """
    from orchestration.access.kafka.topics import describe_topic, newest_records
    from orchestration.cli.access.topic_output import print_records

    name = topic_of(ready.pipeline, topic)
    with _broker(ready, name) as (address, options):
        found = newest_records(address, options, describe_topic(address, options, name), count)
    fates = _judged(ready, found) if judged and found else {}
    print_records(name, found, fates, as_json=as_json)


def _judged(ready: Context, records: Sequence[TopicRecord]) -> Mapping[Coordinates, Sequence[Fate]]:
    """What the pipeline's silver tables make of records, by the coordinates of the records."""
    from orchestration.access.declaration.load_file import load_pipeline
    from orchestration.author.cases.fates import fates
    from orchestration.author.cases.read.case import Record
    from orchestration.author.cases.session import open_cases

    # Cases run outside of environments, on topics without a prefix.
    plain, prefix = load_pipeline(ready.settings.pipeline), ready.settings.topic_prefix
    given = [
        Record(
            each.value,
            each.key,
            each.headers,
            each.topic.removeprefix(prefix),
            each.partition,
            each.offset,
            _EPOCH if each.timestamp_ms is None else _EPOCH + timedelta(milliseconds=each.timestamp_ms),
        )
        for each in records
    ]
    with open_cases(ready.settings) as session:
        found = fates(session, plain, ready.settings, given)
    return {(f"{prefix}{topic}", number, at): told for (topic, number, at), told in found.items()}


def parse_configs(given: Sequence[str]) -> dict[str, str]:
    """Configurations by name from ``KEY=VALUE``; a value may contain ``=`` or be empty.

    Raises:
        UsageError: A text has no name or no ``=``, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not name.strip() or not sign:
            raise UsageError(f"--config {text}: give KEY=VALUE, such as retention.ms=604800000.")
        if name.strip() in found:
            raise UsageError(f"--config {name.strip()} is given twice.")
        found[name.strip()] = value.strip()
    return found


def topic_of(pipeline: Pipeline, name: str) -> str:
    """The topic that a bronze table reads, or the name itself.

    Raises:
        UsageError: The name is empty, or the bronze table reads several topics.
    """
    if not name.strip():
        raise UsageError("The name of the topic is empty.")
    for table in pipeline.topics:
        if name == table.table:
            if len(table.topic_names) == 1:
                return table.topic_names[0]
            several = ", ".join(table.topic_names) or f"all that match {table.pattern}"
            raise UsageError(f"{table.table} reads several topics ({several}). Name one of them.")
    return name


def readers(pipeline: Pipeline, topic: str) -> list[str]:
    """The bronze tables that read a topic."""
    return [table.table for table in pipeline.topics if _reads(table, topic)]


def _reads(table: Topic, topic: str) -> bool:
    return topic in table.topic_names or bool(table.pattern and re.fullmatch(table.pattern, topic))


@contextmanager
def _broker(ready: Context, topic: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The address of the pipeline's broker, and the client options of a topic.

    The embedded broker creates none of the pipeline's topics here: one may be what is to be created.
    """
    from orchestration.access.embedded_broker import lifecycle as broker
    from orchestration.access.kafka import client as kafka

    table = next((each for each in ready.pipeline.topics if _reads(each, topic)), None)
    named = kafka.named_broker(ready.pipeline, ready.settings)
    if named is None:
        with broker.start(ready.settings) as embedded:
            yield embedded.bootstrap_servers, {}
        return
    # A topic that no table reads has the login of those that tables read.
    table = table or next(iter(ready.pipeline.topics), None)
    options = kafka.client_options(ready.settings, ready.pipeline, table)
    kafka.wait_reachable(named, options, _REACH_SECONDS)
    yield named, options
