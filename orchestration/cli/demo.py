"""``medallion demo``: sample events from a real broker through the three jobs, watched for a minute."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from common.config.paths import Layout, all_tables
from common.config.settings import Settings
from common.declare import Aggregate, Pipeline, Topic
from common.errors import UsageError
from common.machine.console import err, out, say
from orchestration.cli import demo_output
from orchestration.cli.status_output import render
from orchestration.jobs.job import Job, open_job
from orchestration.kafka import client as kafka
from orchestration.kafka import producer
from orchestration.query.duckdb_views import Database, run_query
from orchestration.status.collect import Collector, Status
from orchestration.status.row_balance import balance
from orchestration.status.topic_offsets import BrokerOffsets

_CATCH_UP_SECONDS = 60.0
_PLAIN_SECONDS = 10.0


@dataclass
class Sample:
    """One topic's events, sent while the jobs run, in a thread of their own."""

    topic: Topic
    rate: float
    seed: int
    sent: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def run(self, address: str, name: str, skip: int) -> None:
        """Send until told to stop."""
        assert self.topic.sample is not None  # noqa: S101  # chosen for having one
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
        except Exception as error:  # noqa: BLE001  # whatever it is, the thread that watches must tell it
            self.error = error

    def _count(self, done: producer.Produced) -> None:
        self.sent = done.messages


@dataclass
class Samples:
    """The events of all topics."""

    samples: list[Sample]
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self, address: str) -> None:
        """Send to all topics, to each from where earlier runs ended."""
        ends = kafka.end_offsets(address, self.names, {})
        for sample, name in zip(self.samples, self.names, strict=True):
            held = sum(ends.get(name, {}).values())
            if held:
                say(f"topic {name} holds {held:,} events of earlier runs: going on after them")
            thread = threading.Thread(target=sample.run, args=(address, name, held), daemon=True)
            thread.start()
            self.threads.append(thread)

    def stop(self) -> None:
        """Send no more."""
        for sample in self.samples:
            sample.stop.set()

    def end(self) -> None:
        """Send no more, and wait until what was begun is done."""
        self.stop()
        for thread in self.threads:
            thread.join(timeout=10)

    @property
    def names(self) -> list[str]:
        """The topics."""
        return [sample.topic.topic_names[0] for sample in self.samples]

    @property
    def sent(self) -> int:
        """How many events were sent."""
        return sum(sample.sent for sample in self.samples)

    @property
    def is_stopped(self) -> bool:
        """Whether no more are sent."""
        return all(sample.stop.is_set() for sample in self.samples)

    @property
    def error(self) -> BaseException | None:
        """What the first to fail died of."""
        return next((sample.error for sample in self.samples if sample.error is not None), None)


def run(  # noqa: PLR0913  # the knobs of a demo
    pipeline: Pipeline, settings: Settings, *, seconds: float, rate: float, seed: int, began: float
) -> None:
    """Run the demo and print what came of it.

    Args:
        pipeline: Its topics with a sample are fed.
        settings: Where and how.
        seconds: How long events are sent, from the first gold rows on.
        rate: Events per second, of all topics together.
        seed: Of the sample.
        began: ``time.monotonic`` when the command was typed.

    Raises:
        UsageError: No topic has a sample.
        MedallionError: What a query died of.
    """
    topics = [topic for topic in pipeline.bronze if topic.sample is not None]
    if not topics:
        raise UsageError(
            f"pipeline {pipeline.name} has no topic with a sample. Give one: Topic(…, sample=…)."
        )
    if (named := kafka.named_broker(pipeline, settings)) is not None:
        raise UsageError(
            f"The demo writes sample events, and this pipeline reads from {named}. It runs on the embedded "
            "broker only; to fill a topic of your own: medallion produce."
        )
    layout = Layout.of(pipeline, settings)
    with open_job(pipeline, settings, name="demo", compiled="quickly") as job:
        address = job.wiring.bootstrap_servers
        samples = Samples([Sample(topic, rate / len(topics), seed) for topic in topics])
        samples.start(address)
        say(f"sending {rate:,.0f} events/s to {', '.join(samples.names)}; starting the queries")
        job.start()
        collector = Collector(pipeline, layout, BrokerOffsets(pipeline, settings))
        try:
            _watch(job, collector, samples, seconds, began)
        finally:
            samples.end()
        if (failure := samples.error) is not None:
            raise failure
        job.supervisor.end()
        say("stopped at a micro-batch boundary")
        status = collector.collect()
    _tell(pipeline, layout, status)


def _watch(job: Job, collector: Collector, samples: Samples, seconds: float, began: float) -> None:
    """Show the status until the time is over and all sent events are through, or a stop was asked for."""
    clock = _Clock(began, seconds)
    screen = Live(console=err, refresh_per_second=4, transient=True) if err.is_terminal else None
    said = time.monotonic()
    with screen or nullcontext():
        while True:
            status = collector.collect()
            clock.see(status)
            if screen is not None:
                screen.update(Group(render(status), Text(clock.line(samples), style="bold")))
            elif time.monotonic() - said > _PLAIN_SECONDS:
                said = time.monotonic()
                say(clock.line(samples))
            if clock.is_over():
                samples.stop()
            through = samples.is_stopped and not any(table.lag.count for table in status.tables)
            if through or clock.is_late() or job.stop.wait(1.0):
                break
            if (failure := job.supervisor.poll() or samples.error) is not None:
                raise failure
    if clock.first_gold is not None:
        say(f"first gold rows {clock.first_gold - began:.1f} s after the command was typed")


class _Clock:
    """What time it is in the demo."""

    def __init__(self, began: float, seconds: float) -> None:
        self.began, self.seconds = began, seconds
        self.first_gold: float | None = None

    def see(self, status: Status) -> None:
        """Note when the first gold rows are there."""
        gold = any(t.layer == "gold" and t.now and t.now.rows for t in status.tables)
        if gold and self.first_gold is None:
            self.first_gold = time.monotonic()

    def is_over(self) -> bool:
        """Whether enough was sent."""
        return self.first_gold is not None and time.monotonic() - self.first_gold > self.seconds

    def is_late(self) -> bool:
        """Whether catching up takes longer than one should wait."""
        return self.first_gold is not None and (
            time.monotonic() - self.first_gold > self.seconds + _CATCH_UP_SECONDS
        )

    def line(self, samples: Samples) -> str:
        """One line of where it stands."""
        head = f"{time.monotonic() - self.began:4.0f} s  {samples.sent:,} events sent"
        if samples.is_stopped:
            return f"{head}, no more are sent; waiting until all are through"
        if self.first_gold is None:
            return f"{head}, waiting for the first gold rows"
        left = max(0.0, self.seconds - (time.monotonic() - self.first_gold))
        return f"{head}, {left:.0f} s to go (Ctrl-C ends sooner)"


def _tell(pipeline: Pipeline, layout: Layout, status: Status) -> None:
    parts: list[RenderableType] = [render(status)]
    parts += [demo_output.account(balance(table, layout, status)) for table in pipeline.silver]
    plain = (gold for gold in pipeline.gold if isinstance(gold, Aggregate) and gold.window is None)
    aggregate = next(plain, None)
    if aggregate is not None:
        answer = run_query(Database(), layout, all_tables(pipeline), f"select * from {aggregate.table}")  # noqa: S608  # a declared name
        rows = [dict(zip(answer.columns, row, strict=True)) for batch in answer.batches for row in batch]
        parts += [demo_output.table(aggregate, rows), demo_output.chart(aggregate, rows)]
    parts.append(demo_output.next_commands(pipeline))
    for part in parts:
        out.print(part)
        out.print()
