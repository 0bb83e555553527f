"""``medallion produce``: sends sample data, or a captured file, to a topic."""

from __future__ import annotations

import itertools
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from common.declare import Message, Pipeline, Topic
from common.errors import UsageError, nearest
from common.machine.console import err, out, say
from common.machine.stop_signals import handled
from common.machine.terminal import count_of
from orchestration.access.declaration.context import Context
from orchestration.access.declaration.environment import refuse_in_sandbox
from orchestration.access.kafka.producer import Produced, Receipts, produce
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

_SEED = 7
_FASTEST = 1_000_000
_REPORT_SECONDS = 10.0
_STEADY_SECONDS = 2.0  # in a shorter run the wait for the last delivery distorts the rate
_REACHED = 0.95
_DELIMITED = {".csv", ".tsv"}
_LOOKED_AT = 1_000
"""Lines by which the first line of a file is known to name its columns."""


@command_named("produce")
def command(
    ready: Context,
    *,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="NAME",
            help="Bronze table or topic.",
            show_default="the only one with a sample",
        ),
    ] = None,
    rate: Annotated[
        str,
        typer.Option("--rate", metavar="N", help="Messages per second, up to 1000000; 0 or max: no limit."),
    ] = "1000",
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after this number of messages.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="Stop after this number of seconds.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the sample data.", show_default=str(_SEED))
    ] = None,
    skip: Annotated[
        int | None,
        typer.Option(
            "--skip",
            min=0,
            help="Number of messages at the start that are not sent.",
            show_default="sample: as many as the topic has; --from-file: 0",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="Send each line of a file, .gz too; no csv header."),
    ] = None,
    key_field: Annotated[
        str | None,
        typer.Option("--key-field", metavar="PATH", help="With a file: the key, such as properties.url."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send sample data, and its receipts, until Ctrl-C; a second run continues where the first one ended.

    The same seed gives the same messages, at any rate: a run skips as many messages as the topic has.
    """
    bound = Bound(_rate(rate), count, seconds)
    table, name = _target(ready.pipeline, topic, is_sample=file is None)
    messages = _messages(table, file, key_field, seed)
    report = _fill(ready, table, name, messages, bound, skip=0 if file and skip is None else skip)
    _report_keyless(messages)
    if as_json:
        print_document(_document(report))
    else:
        _print_report(report)


def _report_keyless(messages: Iterator[Message]) -> None:
    """Say how many messages of a file had no key field."""
    if keyless := getattr(messages, "keyless", 0):
        field = getattr(messages, "field", "")
        say(f"note: {keyless:,} messages have no field {field} and were sent without a key")


@dataclass(frozen=True)
class Bound:
    """Limits of one run: messages per second, messages, seconds; ``None`` is no limit."""

    rate: float | None
    count: int | None
    seconds: float | None


@dataclass(frozen=True)
class Report:
    """The result of one run."""

    topic: str  # the Kafka topic
    address: str  # the broker
    skipped: int  # messages at the start that were not sent
    produced: Produced  # messages, bytes and seconds
    is_stopped: bool  # whether a signal ended the run
    follows_topic: bool  # whether it began after as many messages as the topic had


def _fill(
    ready: Context, table: Topic, topic: str, messages: Iterator[Message], bound: Bound, *, skip: int | None
) -> Report:
    """Send the messages; without ``skip`` the run continues after as many as the topic has."""
    from orchestration.access.kafka import client as kafka
    from orchestration.run.job import open_broker

    refuse_in_sandbox(ready.settings, "produce")
    options = kafka.client_options(ready.settings, ready.pipeline, table)
    with open_broker(ready.pipeline, ready.settings) as address:
        ends = kafka.end_offsets(address, [topic], options)[topic]
        if not ends:
            raise UsageError(
                f"Topic {topic} does not exist at {address}. Create it there first, with the partitions you "
                "want: the engine creates topics only on the embedded broker."
            )
        skipped = sum(ends.values()) if skip is None else skip
        if skipped:
            say(f"{topic}: skipping the first {count_of(skipped, 'messages')}")
            next(itertools.islice(messages, skipped, skipped), None)  # before the time of the run starts
            if hasattr(messages, "keyless"):
                messages.keyless = 0
        with _stopping() as stop, _progress(topic) as on_progress:
            produced = produce(
                messages,
                bootstrap_servers=address,
                topic=topic,
                options=options,
                rate=bound.rate,
                count=bound.count,
                seconds=bound.seconds,
                stop=stop,
                on_progress=on_progress,
                receipts=_receipts(ready, table, topic, address, options),
            )
    if bound.rate and produced.seconds > _STEADY_SECONDS and produced.rate < _REACHED * bound.rate:
        say(
            f"note: {produced.rate:,.0f} messages/s were sent, not {bound.rate:,.0f}: the machine is too slow"
        )
    return Report(topic, address, skipped, produced, stop.is_set(), follows_topic=skip is None)


def _receipts(
    ready: Context, table: Topic, topic: str, address: str, options: Mapping[str, str]
) -> Receipts | None:
    """Where the run's receipts go: to the topic that the declaration names."""
    if table.receipts is None:
        return None
    from orchestration.access.kafka import client as kafka
    from orchestration.access.kafka.receipts import Collector
    from orchestration.access.kafka.topic_state import topic_ids
    from orchestration.run.topic_checks import receipts_key

    if kafka.missing_topics(address, [table.receipts], options):
        raise UsageError(
            f"The topic of receipts {table.receipts} does not exist at {address}. Create it: medallion topic "
            f"create {table.receipts} --partitions 1 --config cleanup.policy=compact"
        )
    collector = Collector(topic_ids(address, [topic], options).get(topic, ""))
    return Receipts(table.receipts, collector, receipts_key(ready.settings))


def _rate(text: str) -> float | None:
    try:
        number = 0.0 if text == "max" else float(text)
    except ValueError:
        number = -1.0
    if number != 0 and not 1 <= number <= _FASTEST:
        raise UsageError(f"--rate {text}: give messages per second from 1 to {_FASTEST}, or max.")
    return number or None


def _target(pipeline: Pipeline, name: str | None, *, is_sample: bool) -> tuple[Topic, str]:
    """The bronze table and the Kafka topic of a name, or the only possible ones without a name."""
    if name is None:
        able = [table for table in pipeline.topics if table.sample or not is_sample]
        if len(able) != 1:
            tables = able or pipeline.bronze
            why = (
                "several topics have a sample"
                if able
                else "no topic has a sample, and --from-file is not given"
            )
            known = ", ".join(table.name for table in tables)
            raise UsageError(f"--topic is missing: {why if is_sample else 'there are several'} ({known}).")
        return able[0], _topic_of(able[0])
    for table in pipeline.topics:
        if name in table.topic_names or (table.pattern and re.fullmatch(table.pattern, name)):
            return table, name
        if name in (table.name, table.table):
            return table, _topic_of(table)
    known_names = [known for table in pipeline.topics for known in (table.name, *table.topic_names)]
    raise UsageError(f"--topic {name}: the pipeline reads no such topic; {nearest(name, known_names)}")


def _topic_of(table: Topic) -> str:
    if len(table.topic_names) == 1:
        return table.topic_names[0]
    several = ", ".join(table.topic_names) or f"all that match {table.pattern}"
    raise UsageError(f"{table.table} reads several topics ({several}). Name one with --topic.")


def _messages(table: Topic, file: Path | None, key_field: str | None, seed: int | None) -> Iterator[Message]:
    if file is not None:
        from orchestration.access.kafka.capture_file import read_capture, read_keyed_capture

        if seed is not None:
            raise UsageError("--seed is for sample data: it cannot be used with --from-file.")
        if not file.is_file():
            raise UsageError(f"--from-file {file}: {'is a folder' if file.is_dir() else 'no such file'}.")
        if key_field is not None:
            return read_keyed_capture(file, key_field)
        return itertools.islice(read_capture(file), _header_lines(file), None)
    if key_field is not None:
        raise UsageError("--key-field is for files: it needs --from-file.")
    if table.sample is None:
        raise UsageError(
            f"{table.table} has no sample data. Declare it with Topic({table.name!r}, sample=…), or "
            "send a file with --from-file."
        )
    return table.sample(_SEED if seed is None else seed)


def _header_lines(file: Path) -> int:
    """1 if the first line of a file names the columns of delimited text, which is no message; else 0."""
    from orchestration.access.kafka.capture_file import read_capture
    from orchestration.author.propose.csv_lines import has_header

    if not _DELIMITED & set(file.suffixes):
        return 0
    values = (message.value or b"" for message in itertools.islice(read_capture(file), _LOOKED_AT))
    if not has_header([value.decode(errors="replace") for value in values]):
        return 0
    say(f"{file}: its first line names the columns, and is not sent")
    return 1


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set; a second signal has its usual effect."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    with ExitStack() as handlers:

        def handle(number: int) -> None:
            stop.set()
            handlers.close()

        handlers.enter_context(handled(numbers, handle))
        yield stop


@contextmanager
def _progress(name: str) -> Iterator[Callable[[Produced], None]]:
    """A function that shows progress: one changing line on a terminal, a line every ten seconds elsewhere."""
    if not err.is_terminal:
        printed = time.monotonic()

        def print_line(now: Produced) -> None:
            nonlocal printed
            if time.monotonic() - printed >= _REPORT_SECONDS:
                printed = time.monotonic()
                say(_line(name, now))

        yield print_line
        return
    with err.status(f"{name}: …") as status:
        yield lambda now: status.update(_line(name, now))


def _line(name: str, now: Produced) -> str:
    return f"{name}: {count_of(now.messages, 'messages')}, {now.bytes / 1e6:,.1f} MB, {now.rate:,.0f}/s"


def _print_report(report: Report) -> None:
    done = report.produced
    sent = f"{report.topic}: {count_of(done.messages, 'messages')} ({done.bytes / 1e6:,.1f} MB)"
    line = f"{sent} delivered in {done.seconds:,.1f} s, {done.rate:,.0f}/s"
    out.print(line, markup=False, highlight=False, soft_wrap=True)
    if report.is_stopped:
        say(f"stopped; all of them are in the topic. {_the_rest(report)}")


def _the_rest(report: Report) -> str:
    if report.follows_topic:
        return "The same command continues after them"
    return f"To send the rest: the same command with --skip {report.skipped + report.produced.messages}"


def _document(report: Report) -> dict[str, object]:
    return {
        "topic": report.topic,
        "bootstrap_servers": report.address,
        "skipped": report.skipped,
        "messages": report.produced.messages,
        "bytes": report.produced.bytes,
        "seconds": round(report.produced.seconds, 3),
        "rate_per_second": round(report.produced.rate, 1),
    }
