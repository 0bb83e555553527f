"""``medallion demo``: sample events from a real broker through the three layers, watched for a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from common.config.paths import Layout, all_tables
from common.config.settings import Settings
from common.declare import Aggregate, Pipeline, Topic
from common.errors import UsageError
from common.machine import extras
from common.machine.console import err, out, say
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka import producer
from orchestration.access.query.duckdb_views import Database, run_query
from orchestration.cli.observe.status_output import WIDTH, render
from orchestration.cli.run import demo_output
from orchestration.observe.page.serve import page_of
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.model import Status
from orchestration.observe.status.row_balance import balance
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.run.job import Job, open_job

_CATCH_UP_SECONDS = 60.0
_PLAIN_SECONDS = 10.0
_LOOKS, _LOOK_SECONDS = 6, 0.5
_FREE_PORT = "127.0.0.1:0"


@dataclass
class Sample:
    """Sends the sample events of one topic, in a thread of its own."""

    topic: Topic
    rate: float
    seed: int
    sent: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def run(self, address: str, name: str, skip: int) -> None:
        """Send events until ``stop`` is set; ``skip`` events at the start are not sent."""
        assert self.topic.sample is not None  # noqa: S101  # only topics with a sample get here
        try:
            messages = self.topic.sample(self.seed)
            for _ in range(skip):
                next(messages)
            producer.produce(
                messages,
                bootstrap_servers=address,
                topic=name,
                options={},
                rate=self.rate,
                stop=self.stop,
                on_progress=self._count,
            )
        except Exception as error:  # noqa: BLE001  # the main thread raises it
            self.error = error

    def _count(self, produced: producer.Produced) -> None:
        self.sent = produced.messages


@dataclass
class Samples:
    """The senders of all topics."""

    samples: list[Sample]
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self, address: str) -> None:
        """Start one thread per topic; each continues after the events that earlier runs sent."""
        ends = kafka.end_offsets(address, self.names, {})
        for sample, name in zip(self.samples, self.names, strict=True):
            skip = sum(ends.get(name, {}).values())
            if skip:
                say(f"topic {name} has {skip:,} events of earlier runs; the demo continues after them")
            thread = threading.Thread(target=sample.run, args=(address, name, skip), daemon=True)
            thread.start()
            self.threads.append(thread)

    def stop(self) -> None:
        """Request all threads to stop sending."""
        for sample in self.samples:
            sample.stop.set()

    def end(self) -> None:
        """Stop sending, and wait for the threads."""
        self.stop()
        for thread in self.threads:
            thread.join(timeout=10)

    @property
    def names(self) -> list[str]:
        """Names of the topics."""
        return [sample.topic.topic_names[0] for sample in self.samples]

    @property
    def sent(self) -> int:
        """Number of events sent."""
        return sum(sample.sent for sample in self.samples)

    @property
    def is_stopped(self) -> bool:
        """Whether all threads were requested to stop."""
        return all(sample.stop.is_set() for sample in self.samples)

    @property
    def error(self) -> BaseException | None:
        """The exception of the first thread that failed."""
        return next((sample.error for sample in self.samples if sample.error is not None), None)


def run(  # one argument per option
    pipeline: Pipeline,
    settings: Settings,
    *,
    seconds: float,
    rate: float,
    seed: int,
    began: float,
    after: Sequence[str],
) -> None:
    """Run the demo and print its results.

    Args:
        pipeline: Events are sent to its topics that have a sample.
        seconds: Duration of sending, from the first gold rows on.
        rate: Events per second, over all topics.
        began: ``time.monotonic()`` at the start of the command.
        after: What to type before the commands that are shown at the end.

    Raises:
        UsageError: No topic has a sample.
        MedallionError: A query failed.
    """
    topics = [topic for topic in pipeline.topics if topic.sample is not None]
    if not topics:
        raise UsageError(
            f"Pipeline {pipeline.name} has no topic with a sample. Declare one: Topic(…, sample=…)."
        )
    if (address := kafka.named_broker(pipeline, settings)) is not None:
        raise UsageError(
            f"The demo sends sample events, and this pipeline reads from {address}. The demo uses the "
            "embedded broker only. To send events to a broker of your own: medallion produce"
        )
    layout = Layout.of(pipeline, settings)
    with (
        page_of(pipeline, settings, _page_address(settings)),
        open_job(pipeline, settings, name="demo", compiled="quickly") as job,
    ):
        address = job.wiring.bootstrap_servers
        samples = Samples([Sample(topic, rate / len(topics), seed) for topic in topics])
        samples.start(address)
        say(f"sending {rate:,.0f} events/s to {', '.join(samples.names)}; starting the queries")
        job.start()
        collector = Collector(pipeline, layout, BrokerOffsets(pipeline, settings), settings)
        try:
            _watch(job, collector, samples, seconds, began)
        finally:
            samples.end()
        if (failure := samples.error) is not None:
            raise failure
        job.supervisor.end()
        say("stopped at a micro-batch boundary")
        status, failed = _ended(collector), job.supervisor.outcome()
    _print_results(pipeline, layout, status, after)
    if failed is not None:
        raise failed


def _watch(job: Job, collector: Collector, samples: Samples, seconds: float, began: float) -> None:
    """Show the status until all sent events are processed, the time is over, or a stop is requested."""
    clock = _Clock(began, seconds)
    screen = Live(console=err, refresh_per_second=4, transient=True) if err.is_terminal else None
    printed = time.monotonic()
    with screen or nullcontext():
        while True:
            status = collector.collect()
            clock.update(status)
            if screen is not None:
                picture = render(status, rows=err.height - 2)
                screen.update(Group(picture, Text(clock.line(samples), style="bold")))
            elif time.monotonic() - printed > _PLAIN_SECONDS:
                printed = time.monotonic()
                say(clock.line(samples))
            if clock.is_over():
                samples.stop()
            is_caught_up = samples.is_stopped and not any(table.lag.count for table in status.tables)
            if is_caught_up or clock.is_late() or job.stop.wait(1.0):
                break
            if (failure := job.supervisor.poll() or samples.error) is not None:
                raise failure
    if clock.first_gold is not None:
        say(f"first gold rows {clock.first_gold - began:.1f} s after the start of the command")


def _ended(collector: Collector) -> Status:
    """The status of queries that have ended: what the job records of them is up to a second old."""
    status = collector.collect()
    for _ in range(_LOOKS):
        if not any(table.query.state == "working" for table in status.tables):
            break
        time.sleep(_LOOK_SECONDS)
        status = collector.collect()
    return status


class _Clock:
    """The schedule of the demo: sending ends some seconds after the first gold rows."""

    def __init__(self, began: float, seconds: float) -> None:
        self.began, self.seconds = began, seconds
        self.first_gold: float | None = None

    def update(self, status: Status) -> None:
        """Note the time of the first gold rows."""
        gold = any(t.layer == "gold" and t.now and t.now.rows for t in status.tables)
        if gold and self.first_gold is None:
            self.first_gold = time.monotonic()

    def is_over(self) -> bool:
        """Whether sending ends."""
        return self.first_gold is not None and time.monotonic() - self.first_gold > self.seconds

    def is_late(self) -> bool:
        """Whether catching up takes longer than a minute."""
        return self.first_gold is not None and (
            time.monotonic() - self.first_gold > self.seconds + _CATCH_UP_SECONDS
        )

    def line(self, samples: Samples) -> str:
        """One line about the progress."""
        head = f"{time.monotonic() - self.began:4.0f} s  {samples.sent:,} events sent"
        if samples.is_stopped:
            return f"{head}; waiting until all are processed"
        if self.first_gold is None:
            return f"{head}, waiting for the first gold rows"
        left = max(0.0, self.seconds - (time.monotonic() - self.first_gold))
        return f"{head}, {left:.0f} s left (Ctrl-C ends the demo)"


def _page_address(settings: Settings) -> str | None:
    """Where the page listens; None where nobody asked for a page and its packages are not installed."""
    if settings.http.address is None and extras.missing("page"):
        say(f"no page, whose packages are not installed: {extras.install('page')}")
        return None
    return settings.http.address or _FREE_PORT


def _print_results(pipeline: Pipeline, layout: Layout, status: Status, after: Sequence[str]) -> None:
    parts: list[RenderableType] = [render(status)]
    parts += [demo_output.account(balance(table, layout, status)) for table in pipeline.silver]
    plain = (gold for gold in pipeline.gold if isinstance(gold, Aggregate) and gold.window is None)
    aggregate = next(plain, None)
    if aggregate is not None:
        answer = run_query(Database(), layout, all_tables(pipeline), f"select * from {aggregate.table}")  # noqa: S608  # a declared name
        rows = [dict(zip(answer.columns, row, strict=True)) for batch in answer.batches for row in batch]
        parts += [demo_output.table(aggregate, rows), demo_output.Chart(aggregate, rows)]
    parts.append(demo_output.next_commands(pipeline, after))
    console = out if out.is_terminal else Console(file=out.file, width=WIDTH)
    for part in parts:
        console.print(part, crop=False)
        console.print()
