"""``medallion init``: a pipeline file proposed from a topic's messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from common.config.settings import Settings
from common.declare import Avro
from common.errors import PipelineError, UsageError, nearest
from common.machine.console import out, say
from common.schema import avro as avro_schema
from orchestration.cli.options import JsonOption, SetOption, SettingsOption, context
from orchestration.kafka.topic_sample import Sampled
from orchestration.propose import value_shapes
from orchestration.propose.pipeline_source import Proposal, render
from orchestration.propose.propose import propose, table_name

_MOST_TOPICS = 20


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("init")(command)


def command(
    settings: SettingsOption = None,
    set_: SetOption = None,
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Topic; repeatable.", show_default="all there are"),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="A file of messages, one a line; .gz too."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", help="The file that is written.")] = Path("pipeline.py"),
    samples: Annotated[int, typer.Option("--samples", min=1, help="Messages to look at, per topic.")] = 1000,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Propose a pipeline file from a topic's messages: format, columns, key and event time.

    Only names of fields get into the file, no values.
    """
    around = context(None, settings, set_)
    if output.exists() and not force:
        raise UsageError(f"{output} is there already. Name another file with --output, or give --force.")
    found = (
        _of_file(file, topic, samples) if file is not None else _of_broker(around.settings, topic, samples)
    )
    made: list[Proposal] = []
    beside: dict[str, str] = {}
    for name, messages in found:
        known = _avro(around.settings, name, messages, output, beside)
        made.append(propose(name, messages, known))
    _refuse_twins(made)
    name = table_name(made[0].topic) if len(made) == 1 else table_name(output.stem)
    for file_name, text in beside.items():
        if (output.parent / file_name).exists() and not force:
            raise UsageError(f"{output.parent / file_name} is there already; move it away, or give --force.")
        _write(output.parent / file_name, text)
    _write(output, render(name, made))
    if as_json:
        out.print_json(data={"output": str(output), "topics": [_document(each) for each in made]})
        return
    for each in made:
        _tell(each)
    where = "".join(f" --set {text}" for text in set_ or ()) + (f" --settings {settings}" if settings else "")
    say(f"written: {output}. Read it, then:")
    for verb in ("check", "up"):
        say(f"  medallion {verb} -p {output}{where}")


def _of_file(file: Path, topics: Sequence[str] | None, count: int) -> list[tuple[str, list[Sampled]]]:
    from orchestration.kafka.capture_file import read_capture  # only when it is asked for

    if not file.is_file():
        raise UsageError(f"--from-file {file}: no such file.")
    if topics is not None and len(topics) != 1:
        raise UsageError("--from-file is of one topic; give one --topic, or none.")
    name = topics[0] if topics else table_name(file.name.partition(".")[0])
    messages: list[Sampled] = []
    step, place = 1, 0
    for place, message in enumerate(read_capture(file)):  # the last one counts
        if place % step == 0:
            messages.append(Sampled(0, 0, message.value))
        if len(messages) > 2 * count:  # every second goes, and from now on only every second comes
            messages, step = messages[::2], 2 * step
    return [(name, messages[:: max(1, -(-len(messages) // count))])]


def _of_broker(
    settings: Settings, topics: Sequence[str] | None, count: int
) -> list[tuple[str, list[Sampled]]]:
    from orchestration.kafka import client as kafka  # Kafka's client is loaded when it is used
    from orchestration.kafka.topic_sample import sample

    options = {key: value for key, value in settings.kafka.options.items() if key != "bootstrap.servers"}
    with _broker(settings, options) as address:
        there = kafka.topic_names(address, options)
        wanted = list(dict.fromkeys(topics or there))
        if not wanted:
            raise UsageError(f"There is no topic at {address}. Fill one, or give --from-file.")
        if not topics and len(wanted) > _MOST_TOPICS:
            raise UsageError(
                f"There are {len(wanted)} topics at {address}; name those you mean with --topic."
            )
        for name in wanted:
            if name not in there:
                raise UsageError(f"Topic {name} does not exist at {address}; {nearest(name, there)}")
        return [(name, sample(address, name, options, count)) for name in wanted]


@contextmanager
def _broker(settings: Settings, options: dict[str, str]) -> Iterator[str]:
    from orchestration.embedded_broker import lifecycle as broker
    from orchestration.kafka import client as kafka

    named = settings.kafka.bootstrap_servers or settings.kafka.options.get("bootstrap.servers")
    if named:
        kafka.wait_reachable(named, options, 15.0)
        yield named
        return
    with broker.start(settings) as embedded:
        yield embedded.bootstrap_servers


def _avro(
    settings: Settings, topic: str, messages: Sequence[Sampled], output: Path, beside: dict[str, str]
) -> dict[str, object] | None:
    """The schema that most framed values name, where most values are framed; it goes beside the pipeline."""
    values = [message.value for message in messages if message.value]
    framed = [value for value in values if value_shapes.recognize(value).kind == value_shapes.REGISTRY]
    if 2 * len(framed) <= len(values) or not framed:
        return None
    from orchestration.kafka.schema_registry import schema_text  # only for such topics

    number = Counter(int.from_bytes(value[1:5], "big") for value in framed).most_common(1)[0][0]
    text = schema_text(settings, number)
    try:
        fields = avro_schema.fields(Avro(text), output.parent)
    except PipelineError as error:
        told = "; ".join(problem.message for problem in error.problems)
        raise UsageError(f"Topic {topic}: schema {number}: {told}") from error
    file = f"{table_name(topic)}.avsc"
    beside[file] = text
    return {"file": file, "fields": fields}


def _refuse_twins(made: Sequence[Proposal]) -> None:
    twins = [name for name, count in Counter(each.table for each in made).items() if count > 1]
    if twins:
        topics = ", ".join(each.topic for each in made if each.table == twins[0])
        raise UsageError(f"Topics {topics} would share the table {twins[0]}; make one file for each.")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}). Name another with --output."
        ) from error


def _tell(made: Proposal) -> None:
    others = ", ".join(
        f"{number:,} {kind}" for kind, number in made.kinds.most_common() if kind != made.format
    )
    say(
        f"{made.topic}: {made.messages:,} messages, read as {made.format}"
        + (f"; also {others}" if others else "")
    )
    say(f"  {len(made.columns)} columns; key {', '.join(made.key)}: {made.notes['key']}")
    say(f"  event time {made.event_time}: {made.notes['event_time']}; watermark {made.watermark}")


def _document(made: Proposal) -> dict[str, object]:
    return {
        "topic": made.topic,
        "table": made.table,
        "messages": made.messages,
        "format": made.format,
        "kinds": dict(made.kinds),
        "columns": list(made.columns),
        "key": made.key,
        "event_time": made.event_time,
        "watermark": made.watermark,
    }
