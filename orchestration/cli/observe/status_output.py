"""The status for people, as panels that fit the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from common.delta.lease.lease_holder import Standby
from common.machine.terminal import packed
from orchestration.access.declaration.field_use import FieldUse
from orchestration.access.history.alert_state import AlertsFile
from orchestration.access.progress.query_states import QueryState
from orchestration.observe.status.late_counts import Late, OtherRecords
from orchestration.observe.status.model import Kept, Quarantine, Status, TableStatus
from orchestration.observe.status.problems import problems, together
from orchestration.observe.status.words.state import Said, Tone, duration, said

WIDTH = 100
"""Columns of the stacked layout, and of a status that goes into a pipe or a file."""

_COLOURS = {"bronze": "#cd7f32", "silver": "#c0c0c0", "gold": "#ffd700", "publish": "#5fafff"}
_COLUMNS = {"rows": 12, "files": 6, "size": 9, "version": 7, "commit": 8, "rows/s": 8, "lag": 14}
"""Headings and preferred widths; they shrink to their contents before a table's name is cut."""

_LEFT_OUT_FIRST = ("files", "version")
_LEFT_OUT_THEN = ("rows/s", "size", "commit")
_BORDERS = 3
_MARK = 3
_WIDE = 150
_REASONS_SHOWN = 4
_KIB = 1_024
_TONES: dict[Tone, str] = {"good": "green", "plain": "dim", "warn": "yellow", "bad": "red"}
_HOUR = 3_600
_SEPARATOR = "  ·  "


def render(status: Status, *, rows: int | None = None) -> RenderableType:
    """A panel per layer. Narrow terminals get fewer columns; wide ones the details beside the numbers.

    Args:
        rows: Lines that the terminal has for it; details are left out if they do not fit.
    """
    return _Picture(status, rows)


@dataclass(frozen=True)
class _Block:
    """One table: its name, its cells by heading, and its details."""

    table: TableStatus
    name: Text
    cells: dict[str, Text]
    details: list[list[Text]]


@dataclass(frozen=True)
class _Layout:
    """Widths of all panels."""

    panel: int  # columns of a panel with its borders
    name: int  # of the first column
    columns: dict[str, int]  # of the columns that are shown, by heading
    details: int  # of the details beside the numbers; 0 where they stand below them

    @classmethod
    def of(cls, blocks: Sequence[_Block], width: int) -> _Layout:
        """Fit the blocks into a width: columns shrink, then are left out, before a name is cut."""
        is_wide = width >= _WIDE
        panel = width if is_wide else min(width, WIDTH)
        name = max((block.name.cell_len for block in blocks), default=0)
        natural = {
            title: max(len(title), *(block.cells[title].cell_len for block in blocks)) if blocks else 0
            for title in _COLUMNS
        }
        columns = {title: max(size, natural[title]) for title, size in _COLUMNS.items()}
        if width < WIDTH:
            columns = {title: size for title, size in columns.items() if title not in _LEFT_OUT_FIRST}
        if name > _rest(panel, columns):
            columns = {title: natural[title] for title in columns}
        for title in (*_LEFT_OUT_FIRST, *_LEFT_OUT_THEN):
            if name > _rest(panel, columns):
                columns.pop(title, None)
        rest = max(_MARK + 5, _rest(panel, columns))
        return cls(panel, name, columns, rest - name - 2) if is_wide else cls(panel, rest, columns, 0)


def _rest(panel: int, columns: dict[str, int]) -> int:
    """Columns that are left for names beside the numbers."""
    return panel - _BORDERS - sum(size + 1 for size in columns.values())


class _Picture:
    """A status that is laid out when the width of the console is known."""

    def __init__(self, status: Status, rows: int | None) -> None:
        self._status, self._rows = status, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        words = said(self._status)
        blocks = [_block(table, words[table.table], self._status.at) for table in self._status.tables]
        parts = list(self._parts(blocks, options.max_width))
        if self._rows is not None and len(console.render_lines(Group(*parts), options)) > self._rows:
            parts = list(self._parts([replace(block, details=[]) for block in blocks], options.max_width))
        yield from parts

    def _parts(self, blocks: Sequence[_Block], width: int) -> Iterator[RenderableType]:
        layout = _Layout.of(blocks, width)
        yield from _title(self._status, layout.panel)
        critical: dict[str, list[str]] = {}
        found = problems(self._status)
        for problem in found:
            if problem.severity == "critical":  # warnings stand beside the numbers of their tables
                critical.setdefault(problem.text, []).append(problem.table)
        for text, tables in critical.items():
            yield _marked(f"{together(tables)}: {text}", "red")
        if self._status.alerts is not None:
            yield from _alerts(self._status.alerts)
        broker = f"Kafka: {self._status.broker_note}"  # it stands in the title
        for problem in found:
            if not problem.table and problem.text != broker:
                yield _marked(problem.text, "yellow")
        yield from _standbys(self._status.standbys)
        for layer, colour in _COLOURS.items():
            own = [block for block in blocks if block.table.layer == layer]
            if own:
                parts = [_head(layer, colour, layout), *(part for one in own for part in _drawn(one, layout))]
                yield Panel(Group(*parts), border_style=colour, width=layout.panel, padding=0)


def _marked(text: str, style: str) -> Table:
    """A line that people should look at; where it breaks, it goes on under its text."""
    grid = Table.grid()
    grid.add_column(width=_MARK, no_wrap=True)
    grid.add_column()
    grid.add_row(Text(" ! ", style=style), Text(text, style=style))
    return grid


def _alerts(alerts: AlertsFile) -> Iterator[Table]:
    """The raised alerts; those of one rule and second that say the same are one line."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for alert in alerts.raised:
        untold = ", ".join(alerts.untold(alert))
        more = f" (not delivered to {untold})" if untold else ""
        text = f"{alert.text}, since {alert.since:%H:%M:%S} UTC{more}"
        style = "red" if alert.severity == "critical" else "yellow"
        found.setdefault((alert.rule, text, style), []).append(alert.table)
    for (rule, text, style), tables in found.items():
        yield _marked(f"alert {f'{rule} {together(tables)}'.rstrip()}: {text}", style)


def _standbys(standbys: Sequence[Standby]) -> Iterator[Text]:
    for one in standbys:
        state = "is ready" if one.is_ready else "starts, or does not answer"
        release = f"release {one.release}, " if one.release else ""
        yield Text(f" {one.place} of {one.job}, pid {one.pid}, {release}{state}", style="dim")


def _title(status: Status, width: int) -> Iterator[Text]:
    name = f" {status.pipeline}"
    broker = status.broker_note or (f"kafka {status.broker}" if status.broker else "")
    right = packed(
        [*([broker] if broker else []), f"{status.at:%Y-%m-%d %H:%M:%S} UTC"], width - 2, _SEPARATOR
    )
    if len(right) == 1 and len(name) + 2 + len(right[0]) < width:
        room = width - len(name) - 1
        yield Text.assemble((name, "bold"), (f"{right[0]:>{room}} ", "dim"))
        return
    yield Text(name, style="bold")
    for line in right:
        yield Text(f" {line}", style="dim")


def _head(layer: str, colour: str, layout: _Layout) -> Table:
    titles = {title: Text(title, style="dim") for title in _COLUMNS}
    return _line(Text(f" {layer.upper()}", style=f"bold {colour}"), titles, layout, [])


def _drawn(block: _Block, layout: _Layout) -> Iterator[RenderableType]:
    if layout.details:
        yield _line(block.name, block.cells, layout, block.details)
        return
    yield _line(block.name, block.cells, layout, [])
    room = layout.panel - 2 - _MARK - 1
    if block.details:
        yield Padding(Group(*_lines(block.details, room, is_flowing=False)), (0, 1, 0, _MARK))


def _line(name: Text, cells: dict[str, Text], layout: _Layout, details: list[list[Text]]) -> Table:
    """Cells under their headings, and the details beside them where there is room."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=layout.name, no_wrap=True, overflow="ellipsis")
    for size in layout.columns.values():
        grid.add_column(width=size, justify="right", no_wrap=True, overflow="ellipsis")
    row: list[RenderableType] = [name, *(cells[title] for title in layout.columns)]
    if layout.details:
        grid.add_column(width=layout.details)
        row.append(Padding(Group(*_lines(details, layout.details - 2, is_flowing=True)), (0, 0, 0, 2)))
    grid.add_row(*row)
    return grid


def _lines(groups: Sequence[Sequence[Text]], width: int, *, is_flowing: bool) -> Iterator[Text]:
    """Details in as few lines as they fit in; a line breaks between parts, never inside one.

    Each group begins a line of its own, unless the details are flowing.
    """
    parts = [[part for group in groups for part in group]] if is_flowing else groups
    for group in parts:
        line = Text()
        for part in group:
            if line and line.cell_len + len(_SEPARATOR) + part.cell_len <= width:
                line = Text.assemble(line, (_SEPARATOR, "dim"), part)
                continue
            if line:
                yield line
            *full, rest = [part] if part.cell_len <= width else _split(part, width)
            yield from full
            line = rest
        if line:
            yield line


def _split(part: Text, width: int) -> list[Text]:
    """A part that is longer than a line, broken after its commas."""
    return [Text(text, style=part.style) for text in packed(part.plain.split(", "), width)]


def _block(table: TableStatus, words: Said, at: datetime) -> _Block:
    mark = (" ● ", "green") if table.holder is not None else (" ○ ", "dim")
    if table.query.is_faulty:
        mark = (" ● ", "red")
    name = Text.assemble(mark, (table.table.partition(".")[2], "bold"))
    rate, has_none = words.rows_per_second, table.now is None and table.layer != "publish"
    cells = [
        *_state(table, at),
        Text("" if rate is None or has_none else _number(round(rate))),
        Text(words.unread, style=_TONES[words.unread_tone]),
    ]
    return _Block(table, name, dict(zip(_COLUMNS, cells, strict=True)), _details(table, words, at))


def _details(table: TableStatus, words: Said, at: datetime) -> list[list[Text]]:
    details = [list(_source(table)), list(_now(table, words, at))]
    if table.failures is not None and (shown := _failures(table, table.failures, at)):
        details.append([shown])
    if table.kept is not None and (table.kept.keep or table.kept.expired):
        details.append([*_kept(table.kept)])
    if table.watermark is not None:
        ago = _age(at, table.watermark)
        details.append([Text(f"watermark {table.watermark:%Y-%m-%d %H:%M:%S} ({ago} ago)", style="dim")])
    if table.quarantine is not None and table.quarantine.rows != 0:
        details.append([_rejected(table.quarantine)])
    if table.late is not None and table.late.count:
        details.append([_late(table.late)])
    if table.other is not None and table.other.count:
        details.append([_other(table.other)])
    if table.fields is not None and (table.fields.seen() or table.fields.is_rename):
        details.append([_unknown(table.fields)])
    if table.source_files is not None:
        details += [[Text(text, style="yellow")] for text in table.source_files.problems()]
    if table.catalog is not None and table.catalog.error:
        details.append(
            [Text(f"catalog: not registered as {table.catalog.name}: {table.catalog.error}", style="yellow")]
        )
    return details


def _kept(kept: Kept) -> Iterator[Text]:
    if kept.keep is not None:
        yield Text(f"keeps records for {kept.keep}", style="dim")
    if kept.expired:
        yield Text(f"expired: {kept.text}", style="dim")


def _state(table: TableStatus, at: datetime) -> list[Text]:
    now = table.now
    if table.fault:
        return [Text("unknown", style="red"), *[Text()] * 4]
    if now is None:
        is_sent = table.layer == "publish" and table.last_batch_id is not None
        return [Text(f"batch {table.last_batch_id}" if is_sent else "not yet", style="dim"), *[Text()] * 4]
    cells = (
        _number(now.rows),
        _number(now.files),
        bytes_text(now.bytes),
        str(now.version),
        _age(at, now.timestamp),
    )
    return [Text(cell) for cell in cells]


def _source(table: TableStatus) -> Iterator[Text]:
    kind = "topic " if table.kind == "topic" else ""
    holder, lag = table.holder, table.lag
    yield Text(f"← {kind}{', '.join(table.reads)}", style="dim")
    yield Text(f"{holder.job}, pid {holder.pid}" if holder else "stopped", style="dim")
    if lag.versions and lag.files and lag.bytes is not None:
        commits = f"{_number(lag.versions)} commit{'' if lag.versions == 1 else 's'}"
        files = f"{_number(lag.files)} file{'' if lag.files == 1 else 's'}"
        yield Text(f"to read: {commits}, {files}, {bytes_text(lag.bytes)}", style="dim")
    if (told := table.receipts) is not None:
        style = "yellow" if told.without or told.faults else "dim"
        yield Text(f"{told.text} (audit of {told.at:%Y-%m-%d %H:%M:%SZ})", style=style)
    if lag.note and lag.note != table.fault:  # a fault is said above all panels
        yield Text(lag.note, style="yellow" if lag.count is None else "dim")


def _now(table: TableStatus, words: Said, at: datetime) -> Iterator[Text]:
    """What the query does, how far it is behind its source, its last micro-batch and its state."""
    query, fresh = table.query, table.freshness
    if query.is_held or query.waits_for or query.state not in {"waiting", "stopped"}:
        yield Text(query.phase, style="red" if query.is_faulty else "dim")
    waiting = None if fresh is None else fresh.waiting_seconds(at)
    if waiting:
        yield Text(f"{duration(waiting)} behind its source", style="dim")
    elif fresh is not None and not fresh.is_known and table.holder is not None:
        yield Text("not known whether a record waits", style="yellow")
    if table.uncommitted is not None and table.uncommitted.records:
        yield Text(f"{_number(table.uncommitted.records)} records in open transactions", style="yellow")
    if words.loss:
        yield Text(words.loss, style=_TONES[words.loss_tone])
    if (last := query.last_batch) is not None and table.holder is not None:
        yield Text(f"last batch {last.duration_ms / 1000:.1f} s", style="dim")
        if last.state_rows is not None and last.state_bytes is not None:
            yield Text(f"state {_number(last.state_rows)} rows, {bytes_text(last.state_bytes)}", style="dim")


def _failures(table: TableStatus, failures: QueryState, at: datetime) -> Text | None:
    """The restarts of a query in the last hour and what had failed; a failure for good of an ended job."""
    if failures.state == "failed":
        # Of a running job, the state of the query says so already.
        is_known = table.query.state == "failed"
        return None if is_known else Text(f"! stopped since {failures.since[11:19]}: {failures.error}", "red")
    if not (restarts := failures.restarts_within(_HOUR, at)):
        return None
    times = f"{restarts} restart{'' if restarts == 1 else 's'} in the last hour"
    colour = "dim" if failures.state == "works" else "yellow"
    return Text(f"{times}: {failures.subject or failures.error}", style=colour)


def _rejected(quarantine: Quarantine) -> Text:
    shown = ", ".join(f"{reason} {_number(count)}" for reason, count in quarantine.reasons[:_REASONS_SHOWN])
    more = len(quarantine.reasons) - _REASONS_SHOWN
    return Text(
        f"quarantine {_number(quarantine.rows)}: {shown}{f' and {more} more' if more > 0 else ''}",
        style="red",
    )


def _unknown(use: FieldUse) -> Text:
    return Text(f"! {use.text()}", style="red") if use.is_rename else Text(use.seen(), style="dim")


def _late(late: Late) -> Text:
    percent = 100 * late.count / late.of if late.of else 0
    share = f" of {_number(late.of)}" if late.of else ""
    part = f" ({percent:.{0 if percent >= 1 else 2}f} %)" if late.of else ""
    left_out = f", {_number(late.left_out)} left out" if late.left_out else ""
    since = "" if late.since is None else f", since {late.since:%Y-%m-%d %H:%M:%S}"
    early = f", {_number(late.before_1970)} before 1970, where a watermark begins" if late.before_1970 else ""
    text = f"late {_number(late.count)}{share} {late.unit}{part}{left_out}{early}{since}"
    return Text(f"! {text}", style="red") if late.is_many else Text(text, style="dim")


def _other(other: OtherRecords) -> Text:
    since = "" if other.since is None else f", since {other.since:%Y-%m-%d %H:%M:%S}"
    return Text(f"other {_number(other.count)} of {_number(other.of)} records, by where{since}", style="dim")


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def bytes_text(count: int) -> str:
    """A size in the largest unit that leaves at least one digit before the point."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < _KIB or unit == "TiB":
            break
        size /= _KIB
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"  # noqa: PLR2004  # three digits


def _age(at: datetime, then: datetime) -> str:
    seconds = max(0, int((at - then).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
