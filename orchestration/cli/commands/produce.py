"""``medallion produce``: sample data, or a capture, into a topic."""

from __future__ import annotations

import itertools
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from common.declare import Message, Pipeline, Topic
from common.errors import UsageError, nearest
from common.machine.console import err, out, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption, context
from orchestration.kafka.producer import Produced, produce

_SEED = 7
_FASTEST = 1_000_000
_REPORT_SECONDS = 10.0
_SETTLED_SECONDS = 2.0  # shorter, the last delivery's wait weighs too much to judge the rate
_HELD = 0.95


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("produce")(command)


def command(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
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
        typer.Option("--rate", metavar="N", help="Messages per second, up to 1000000; 0 or max: no bound."),
    ] = "1000",
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after so many messages.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.1, help="Stop after so long.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Which sample data.", show_default=str(_SEED))
    ] = None,
    skip: Annotated[
        int | None,
        typer.Option(
            "--skip",
            min=0,
            help="Leave out so many messages at the start.",
            show_default="sample: as many as the topic already got; --from: 0",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Replay a file, one message per line; .gz too."),
    ] = None,
    key_field: Annotated[
        str | None,
        typer.Option("--key-field", metavar="PATH", help="With --from: the key, such as properties.url."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a topic with sample data until Ctrl-C; a second run goes on where the first one ended.

    Sample data is the same for the same seed, at any rate: it goes on by counting what the topic got.
    """
    from orchestration.jobs.job import open_broker  # so is what starts the broker
    from orchestration.kafka import client as kafka  # Kafka's client is loaded when it is used

    per_second = _rate(rate)
    around = context(pipeline, settings, set_)
    table, name = _chosen(around.pipeline, topic, sampled=file is None)
    messages = _messages(table, file, key_field, seed)
    options = kafka.client_options(around.settings, around.pipeline, table)
    with open_broker(around.pipeline, around.settings) as address:
        ends = kafka.end_offsets(address, [name], options)[name]
        if not ends:
            raise UsageError(
                f"Topic {name} does not exist at {address}. Create it there first, with the partitions you "
                "want: the engine makes topics only on its own broker."
            )
        skipped = skip if skip is not None else 0 if file else sum(ends.values())
        if skipped:
            say(f"{name}: leaving out the first {skipped:,} messages")
            next(itertools.islice(messages, skipped, skipped), None)  # now, not on the time of those that go
        with _stopping() as stop, _progress(name) as on_progress:
            done = produce(
                messages,
                bootstrap_servers=address,
                topic=name,
                options=options,
                rate=per_second,
                count=count,
                seconds=seconds,
                stop=stop,
                on_progress=on_progress,
            )
        if per_second and done.seconds > _SETTLED_SECONDS and done.rate < _HELD * per_second:
            say(f"note: {done.rate:,.0f} of {per_second:,.0f} messages/s: more was not possible here")
        if as_json:
            out.print_json(data=_document(name, address, skipped, done))
        else:
            _tell(name, done, stopped=stop.is_set())


def _rate(text: str) -> float | None:
    try:
        number = 0.0 if text == "max" else float(text)
    except ValueError:
        number = -1.0
    if number != 0 and not 1 <= number <= _FASTEST:
        raise UsageError(f"--rate {text}: give messages per second from 1 to {_FASTEST}, or max.")
    return number or None


def _chosen(pipeline: Pipeline, name: str | None, *, sampled: bool) -> tuple[Topic, str]:
    """The bronze table and the Kafka topic meant by a name, or by no name."""
    if name is None:
        able = [table for table in pipeline.bronze if table.sample or not sampled]
        if len(able) != 1:
            tables = able or pipeline.bronze
            why = "several topics have a sample" if able else "no topic has a sample, and there is no --from"
            known = ", ".join(table.name for table in tables)
            raise UsageError(f"--topic is missing: {why if sampled else 'there are several'} ({known}).")
        return able[0], _topic_of(able[0])
    for table in pipeline.bronze:
        if name in table.topic_names or (table.pattern and re.fullmatch(table.pattern, name)):
            return table, name
        if name in (table.name, table.table):
            return table, _topic_of(table)
    known_names = [known for table in pipeline.bronze for known in (table.name, *table.topic_names)]
    raise UsageError(f"--topic {name}: the pipeline reads no such topic; {nearest(name, known_names)}")


def _topic_of(table: Topic) -> str:
    if len(table.topic_names) == 1:
        return table.topic_names[0]
    several = ", ".join(table.topic_names) or f"all that match {table.pattern}"
    raise UsageError(f"{table.table} reads several topics ({several}). Say which with --topic.")


def _messages(table: Topic, file: Path | None, key_field: str | None, seed: int | None) -> Iterator[Message]:
    if file is not None:
        from orchestration.kafka.capture_file import read_capture  # only when it is asked for

        if seed is not None:
            raise UsageError("--seed chooses sample data; a file has none: leave it out with --from.")
        if not file.is_file():
            raise UsageError(f"--from {file}: no such file.")
        return read_capture(file, key_field)
    if key_field is not None:
        raise UsageError("--key-field says where a file's keys are: give it together with --from.")
    if table.sample is None:
        raise UsageError(
            f"{table.table} has no sample data. Declare it, Topic({table.name!r}, sample=…), or "
            "replay a file with --from."
        )
    return table.sample(_SEED if seed is None else seed)


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C interrupts as usual."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        restore()


@contextmanager
def _progress(name: str) -> Iterator[Callable[[Produced], None]]:
    """What shows how far it is: a line that changes on a terminal, a line every ten seconds elsewhere."""
    if not err.is_terminal:
        told = time.monotonic()

        def tell(now: Produced) -> None:
            nonlocal told
            if time.monotonic() - told >= _REPORT_SECONDS:
                told = time.monotonic()
                say(_line(name, now))

        yield tell
        return
    with err.status(f"{name}: …") as status:
        yield lambda now: status.update(_line(name, now))


def _line(name: str, now: Produced) -> str:
    return f"{name}: {now.messages:,} messages, {now.bytes / 1e6:,.1f} MB, {now.rate:,.0f}/s"


def _tell(name: str, done: Produced, *, stopped: bool) -> None:
    what = (
        f"{name}: {done.messages:,} messages ({done.bytes / 1e6:,.1f} MB) delivered in {done.seconds:,.1f} s"
    )
    out.print(f"{what}, {done.rate:,.0f}/s", markup=False, highlight=False, soft_wrap=True)
    if stopped:
        say("stopped; all of them are in the topic, and medallion produce goes on after them")


def _document(name: str, address: str, skipped: int, done: Produced) -> dict[str, object]:
    return {
        "topic": name,
        "bootstrap_servers": address,
        "skipped": skipped,
        "messages": done.messages,
        "bytes": done.bytes,
        "seconds": round(done.seconds, 3),
        "rate_per_second": round(done.rate, 1),
    }
