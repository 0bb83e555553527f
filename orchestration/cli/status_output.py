"""A status as people see it, 100 columns wide, and as a JSON document for machines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from orchestration.status.collect import Quarantine, Status, TableStatus

WIDTH = 100

_COLOURS = {"bronze": "#cd7f32", "silver": "#c0c0c0", "gold": "#ffd700", "publish": "#5fafff"}
_COLUMNS = (
    ("", 0),
    ("rows", 12),
    ("files", 6),
    ("size", 9),
    ("version", 7),
    ("commit", 8),
    ("rows/s", 8),
    ("lag", 14),
)
_LEFT_OUT = ("files", "version")
_REASONS_SHOWN = 4
_KIB = 1_024
_SEPARATOR = Text("  ·  ", style="dim")


def render(status: Status) -> RenderableType:
    """The picture: a panel per layer, a block per table; below 100 columns it leaves some numbers out."""
    return _Picture(status)


class _Picture:
    """A status that is laid out once the console's width is known."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(WIDTH, options.max_width)
        yield _title(self._status, width)
        yield from _panels(self._status, width)


def document(status: Status) -> dict[str, Any]:
    """The same as JSON. Keys are stable; times are ISO 8601 in UTC; null is what is not known.

    ``pipeline``, ``at``, ``broker`` (``address``, ``note``) and ``tables``, each with:
    ``table``, ``layer``, ``kind`` (topic, silver, aggregate, upsert), ``reads`` (topics or a table),
    ``path``, ``exists``, ``rows``, ``files``, ``bytes``, ``version``, ``committed_at``,
    ``lag`` (``unit``: records or rows; ``count``, ``versions``, ``files``, ``bytes``, ``note``),
    ``rows_per_second`` (last 60 s), ``last_batch_id``, ``watermark_at``,
    ``quarantine`` (``table``, ``rows``, ``reasons``: rows by reason; null except for silver),
    ``job`` (``name``, ``pid``, ``host``, ``started_at``; null when stopped).
    """
    return {
        "pipeline": status.pipeline,
        "at": _iso(status.at),
        "broker": {"address": status.broker, "note": status.broker_note},
        "tables": [_table_document(table) for table in status.tables],
    }


def _table_document(table: TableStatus) -> dict[str, Any]:
    now, lag, rejected, job = table.now, table.lag, table.quarantine, table.holder
    return {
        "table": table.table,
        "layer": table.layer,
        "kind": table.kind,
        "reads": list(table.reads),
        "path": table.path,
        "exists": now is not None,
        "rows": now and now.rows,
        "files": now and now.files,
        "bytes": now and now.bytes,
        "version": now and now.version,
        "committed_at": _iso(now.timestamp) if now else None,
        "lag": {name: getattr(lag, name) for name in ("unit", "count", "versions", "files", "bytes", "note")},
        "rows_per_second": None if table.rows_per_second is None else round(table.rows_per_second, 1),
        "last_batch_id": table.last_batch_id,
        "watermark_at": _iso(table.watermark),
        "quarantine": rejected
        and {"table": rejected.table, "rows": rejected.rows, "reasons": dict(rejected.reasons)},
        "job": job
        and {"name": job.job, "pid": job.pid, "host": job.host, "started_at": _iso(job.started_at)},
    }


def _title(status: Status, width: int) -> Table:
    title = Table.grid(expand=False)
    title.width = width
    title.add_column(no_wrap=True)
    title.add_column(justify="right", no_wrap=True)
    broker = status.broker_note or f"kafka {status.broker}"
    right = Text(f"{broker}  ·  {status.at:%Y-%m-%d %H:%M:%S} UTC ", style="dim")
    title.add_row(Text(f" {status.pipeline}", style="bold"), right)
    return title


def _panels(status: Status, width: int) -> Iterator[Panel]:
    for layer, colour in _COLOURS.items():
        tables = [table for table in status.tables if table.layer == layer]
        if tables:
            blocks = [part for table in tables for part in _block(table, status.at, width)]
            yield Panel(
                Group(_head(layer, colour, width), *blocks), border_style=colour, width=width, padding=0
            )


def _line(width: int, *cells: Text) -> Table:
    """Cells under their columns; the first column takes what the others leave."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    left_out = _LEFT_OUT if width < WIDTH else ()
    kept = [(cell, size) for cell, (name, size) in zip(cells, _COLUMNS, strict=True) if name not in left_out]
    rest = sum(size + 1 for _, size in kept[1:])
    for number, (_, size) in enumerate(kept):
        side: JustifyMethod = "left" if number == 0 else "right"
        grid.add_column(
            width=size or max(8, width - 3 - rest), justify=side, no_wrap=True, overflow="ellipsis"
        )
    grid.add_row(*(cell for cell, _ in kept))
    return grid


def _head(layer: str, colour: str, width: int) -> Table:
    titles = (Text(name, style="dim") for name, _ in _COLUMNS[1:])
    return _line(width, Text(f" {layer.upper()}", style=f"bold {colour}"), *titles)


def _block(table: TableStatus, at: datetime, width: int) -> Iterator[RenderableType]:
    running = table.holder is not None
    dot = (" ● ", "green") if running else (" ○ ", "dim")
    name = Text.assemble(dot, (table.table.partition(".")[2], "bold"))
    idle = table.rows_per_second is None or (table.now is None and table.layer != "publish")
    rate = Text("" if idle else _number(round(table.rows_per_second or 0)))
    yield _line(width, name, *_state(table, at), rate, _lag(table))
    yield _detail(_source(table))
    if table.watermark is not None:
        ago = _age(at, table.watermark)
        yield _detail(Text(f"watermark {table.watermark:%Y-%m-%d %H:%M:%S} ({ago} ago)", style="dim"))
    if table.quarantine is not None and table.quarantine.rows != 0:
        yield _detail(_rejected(table.quarantine))


def _state(table: TableStatus, at: datetime) -> list[Text]:
    now = table.now
    if now is None:
        is_sent = table.layer == "publish" and table.last_batch_id is not None
        return [Text(f"batch {table.last_batch_id}" if is_sent else "not yet", style="dim"), *[Text()] * 4]
    told = (
        _number(now.rows),
        _number(now.files),
        _size(now.bytes),
        str(now.version),
        _age(at, now.timestamp),
    )
    return [Text(cell) for cell in told]


def _lag(table: TableStatus) -> Text:
    lag = table.lag
    if table.now is None and table.last_batch_id is None and not lag.count:
        return Text()
    if lag.count is None:
        return Text("unknown", style="yellow")
    if lag.count == 0:
        return Text("up to date", style="green")
    return Text(f"{_number(lag.count)} {lag.unit}", style="yellow")


def _source(table: TableStatus) -> Text:
    kind = "topic " if table.kind == "topic" else ""
    parts = [Text(f"← {kind}{', '.join(table.reads)}", style="dim")]
    holder, lag = table.holder, table.lag
    parts.append(Text(f"{holder.job}, pid {holder.pid}" if holder else "stopped", style="dim"))
    if lag.versions and lag.files and lag.bytes is not None:
        commits = f"{_number(lag.versions)} commit{'' if lag.versions == 1 else 's'}"
        files = f"{_number(lag.files)} file{'' if lag.files == 1 else 's'}"
        parts.append(Text(f"to read: {commits}, {files}, {_size(lag.bytes)}", style="dim"))
    if lag.note:
        parts.append(Text(lag.note, style="yellow" if lag.count is None else "dim"))
    return _SEPARATOR.join(parts)


def _rejected(quarantine: Quarantine) -> Text:
    shown = ", ".join(f"{reason} {_number(count)}" for reason, count in quarantine.reasons[:_REASONS_SHOWN])
    more = len(quarantine.reasons) - _REASONS_SHOWN
    return Text(
        f"quarantine {_number(quarantine.rows)}: {shown}{f' and {more} more' if more > 0 else ''}",
        style="red",
    )


def _detail(text: Text) -> Padding:
    return Padding(text, (0, 1, 0, 3))


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _size(count: int) -> str:
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


def _iso(moment: datetime | None) -> str | None:
    return (
        None
        if moment is None
        else moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
