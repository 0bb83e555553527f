"""``medallion init``: proposes a pipeline file from the messages of a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from common.config.settings import SETTINGS_FILE, Settings
from common.errors import UsageError, nearest
from common.machine.console import say
from orchestration.access.declaration.context import context
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.access.query.shown_values import part
from orchestration.author.propose.described import Described
from orchestration.author.propose.pipeline_source import Proposal, in_words_of_files, render
from orchestration.author.propose.propose import propose, table_name
from orchestration.cli.author.init_schema import of_descriptors, of_registry
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, SetOption, SettingsOption, command_named, options_as_typed

_SETTINGS = (
    "# Read by every medallion command in this folder: only what differs from the defaults.\npipeline: {}\n"
)
_MOST_TOPICS = 20
_MOST_LINES = 500_000

_DescriptorsOption = Annotated[
    Path | None,
    typer.Option(
        "--descriptors",
        metavar="FILE",
        help="Descriptors of the messages' Protobuf, of protoc --include_imports --descriptor_set_out.",
        show_default="the registry's",
    ),
]
_MessageOption = Annotated[
    str | None,
    typer.Option(
        "--message",
        metavar="NAME",
        help="The message of --descriptors, such as shop.Order.",
        show_default="its only one",
    ),
]


@command_named("init")
def command(
    settings: SettingsOption = None,
    set_: SetOption = None,
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Topic; repeatable.", show_default="all of the broker"),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="FILE",
            help="A file of messages, one per line; .gz too. Or a folder of CSV files or JSON lines.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("pipeline.py"),
    descriptors: _DescriptorsOption = None,
    message: _MessageOption = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Messages to read, per topic.")] = 10_000,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Propose a pipeline file from messages of a topic: format, columns, key, event time, rules, gold tables.

    The file has names of fields, but no values, except those of a field such as type. A folder without
    medallion.yaml gets one that names the pipeline.
    """
    ready = context(None, settings, set_)
    if output.exists() and not force:
        raise UsageError(f"{output} exists. Name another file with --output, or overwrite it with --force.")
    _require_one_message(descriptors, message, file, topic)
    beside: dict[str, bytes] = {}

    def known(name: str, values: Sequence[bytes]) -> Described | None:
        if descriptors is None:
            return of_registry(ready.settings, name, values, output, beside)
        return of_descriptors(descriptors, message, values, output)

    is_folder = file is not None and file.is_dir()
    if file is not None and is_folder:
        proposals = [_of_folder(file, topic, samples, output, descriptors)]
    else:
        proposals = list(_of_topics(ready.settings, file, topic, samples, known))
    _refuse_same_table(proposals)
    name = table_name(proposals[0].topic) if len(proposals) == 1 else table_name(output.stem)
    written = _write_beside(output, beside, force=force)
    _write(output, render(name, proposals).encode())
    if settings is None and output.parent == Path() and not Path(SETTINGS_FILE).exists():
        _write(Path(SETTINGS_FILE), _SETTINGS.format(output).encode())
        written.append(SETTINGS_FILE)
    if as_json:
        topics = [_document(each) for each in proposals]
        print_document({"output": str(output), "files": written, "topics": topics})
        return
    for proposal in proposals:
        _print_proposal(proposal)
    _print_next(output, written, None if is_folder else file, _words_of(output, settings, set_))


def _require_one_message(
    descriptors: Path | None, message: str | None, file: Path | None, topics: Sequence[str] | None
) -> None:
    if message is not None and descriptors is None:
        raise UsageError("--message names a message of --descriptors FILE; give the file too.")
    if descriptors is not None and file is None and len(topics or ()) != 1:
        raise UsageError("--descriptors is of the messages of one topic: name it with --topic.")


def _of_topics(
    settings: Settings,
    file: Path | None,
    topics: Sequence[str] | None,
    count: int,
    known: Callable[[str, Sequence[bytes]], Described | None],
) -> Iterator[Proposal]:
    """The proposals for topics of the broker, or for a file of messages."""
    found = _of_broker(settings, topics, count) if file is None else _of_file(file, topics, count)
    everything = None if file is None else partial(_values_of, file)
    for name, messages in found:
        values = [each.value for each in messages if each.value]
        yield propose(name, messages, known(name, values), everything)


def _of_folder(
    folder: Path, topics: Sequence[str] | None, count: int, output: Path, descriptors: Path | None
) -> Proposal:
    """The proposal for the files of a folder, which are read where they are."""
    from orchestration.cli.author.init_files import sample_folder

    if descriptors is not None:
        raise UsageError("--descriptors is of messages of a topic; a folder has CSV files or JSON lines.")
    if topics is not None and len(topics) != 1:
        raise UsageError("--from-file FOLDER makes one table; give at most one --topic, as its name.")
    whole, beside = folder.resolve(), output.parent.resolve()
    shown = whole.relative_to(beside) if whole.is_relative_to(beside) else whole
    found = sample_folder(folder, str(shown), count)
    proposal = propose(
        topics[0] if topics else whole.name,
        found.messages,
        None,
        partial(found.values, _MOST_LINES),
        found.files,
    )
    proposal.remarks += found.remarks
    in_words_of_files(proposal)
    return proposal


def _print_next(output: Path, written: Sequence[str], file: Path | None, words: str) -> None:
    say(f"written: {', '.join(written)}. Read {output}, then:")
    for command_name in ("check", "up"):
        say(f"  medallion {command_name}{words}")
    if file is not None:
        say("The messages of the file are sent, beside a running `medallion up`, with:")
        say(f"  medallion produce --from-file {quote(str(file))}{words}")
    if (cases := output.with_suffix(".cases.yaml")).exists():
        say(f"{cases} has tests of the file that was there before; check and test read them.")


def _words_of(output: Path, settings: Path | None, set_: Sequence[str] | None) -> str:
    """The options that the next commands need: ``-p`` only where the settings name no or another pipeline."""
    named = context(None, settings, list(set_ or ())).settings.pipeline
    is_named = named is not None and named.resolve() == output.resolve()
    return ("" if is_named else f" -p {quote(str(output))}") + options_as_typed()


def _of_file(file: Path, topics: Sequence[str] | None, count: int) -> list[tuple[str, list[Sampled]]]:
    from orchestration.access.kafka.capture_file import sample_capture

    if not file.is_file():
        raise UsageError(f"--from-file {file}: no such file.")
    if topics is not None and len(topics) != 1:
        raise UsageError("--from-file has the messages of one topic; give at most one --topic.")
    name = topics[0] if topics else table_name(file.name.partition(".")[0])
    return [(name, [Sampled(0, 0, message.value) for message in sample_capture(file, count)])]


def _values_of(file: Path) -> Iterator[bytes | None]:
    """Values in which a key is searched for collisions."""
    from orchestration.access.kafka.capture_file import read_capture

    return (message.value for message in islice(read_capture(file), _MOST_LINES))


def _of_broker(
    settings: Settings, topics: Sequence[str] | None, count: int
) -> list[tuple[str, list[Sampled]]]:
    from orchestration.access.kafka import client as kafka
    from orchestration.access.kafka.topic_sample import sample

    options = {key: value for key, value in settings.kafka.options.items() if key != "bootstrap.servers"}
    with _broker(settings, options) as address:
        there = kafka.topic_names(address, options)
        wanted = list(dict.fromkeys(topics or there))
        if not wanted:
            raise UsageError(f"There is no topic at {address}. Send messages to one, or give --from-file.")
        if not topics and len(wanted) > _MOST_TOPICS:
            raise UsageError(f"There are {len(wanted)} topics at {address}; name some with --topic.")
        for name in wanted:
            if name not in there:
                raise UsageError(f"Topic {name} does not exist at {address}; {nearest(name, there)}")
        return [(name, sample(address, name, options, count)) for name in wanted]


@contextmanager
def _broker(settings: Settings, options: dict[str, str]) -> Iterator[str]:
    from orchestration.access.embedded_broker import lifecycle as broker
    from orchestration.access.kafka import client as kafka

    named = settings.kafka.bootstrap_servers or settings.kafka.options.get("bootstrap.servers")
    if named:
        kafka.wait_reachable(named, options, 15.0)
        yield named
        return
    with broker.start(settings) as embedded:
        yield embedded.bootstrap_servers


def _refuse_same_table(proposals: Sequence[Proposal]) -> None:
    names = Counter(name for each in proposals for name in {each.table, *(t.table for t in each.tables)})
    shared = [name for name, count in names.items() if count > 1]
    if shared:
        topics = ", ".join(
            each.topic for each in proposals if shared[0] in {each.table, *(t.table for t in each.tables)}
        )
        raise UsageError(
            f"Topics {topics} would share the table {shared[0]}; write one file per topic with --topic."
        )


def _write_beside(output: Path, beside: Mapping[str, bytes], *, force: bool) -> list[str]:
    """Write files beside the pipeline file; returns its name and theirs."""
    for name in beside:
        if (output.parent / name).exists() and not force:
            raise UsageError(f"{output.parent / name} exists. Move it away, or overwrite it with --force.")
    for name, content in beside.items():
        _write(output.parent / name, content)
    return [str(output), *(str(output.parent / each) for each in beside)]


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}). Name another with --output."
        ) from error


def _print_proposal(proposal: Proposal) -> None:
    others = ", ".join(
        f"{number:,} {kind}" for kind, number in proposal.kinds.most_common() if kind != proposal.format
    )
    things = "messages" if proposal.files is None else "lines"
    say(
        f"{proposal.topic}: {proposal.kinds[proposal.format]:,} {things}, read as {proposal.format}"
        + (f"; also {others}" if others else "")
    )
    say(f"  {len(proposal.columns)} columns; key {', '.join(proposal.key)}: {proposal.notes['key']}")
    say(f"  event time {proposal.event_time}: {proposal.notes['event_time']}; watermark {proposal.watermark}")
    for remark in proposal.remarks:
        say(f"  {remark}")
    if proposal.parts:
        say(f"  a table per type of message: {', '.join(part.table for part in proposal.parts)}")


def _document(proposal: Proposal) -> dict[str, object]:
    return {
        "topic": proposal.topic,
        "table": proposal.table,
        "tables": [table.table for table in proposal.tables],
        **part(proposal, "messages", "format", "kinds", "key", "event_time", "watermark"),
        "columns": list(proposal.columns),
    }
