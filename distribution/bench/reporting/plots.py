"""A page with plots that stands alone: its pictures are drawn here, as SVG, and it loads nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from distribution.bench.measure.stats import number

_WIDTH, _HEIGHT = 760, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 34, 40
_COLOURS = ("#1b6ca8", "#d1495b", "#edae49", "#3b8b5a", "#7a5195", "#555555", "#2fa4a0", "#c2571a")

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #222 }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0 }
td, th { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left } .met { color: #3b8b5a } .missed { color: #d1495b }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif }
"""


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar per name."""

    title: str
    values: Mapping[str, float]
    unit: str

    def svg(self) -> str:
        """The picture."""
        known = {name: value for name, value in self.values.items() if math.isfinite(value)}
        most = max(known.values(), default=1.0) or 1.0
        space = _WIDTH - 2 * _LEFT - 120
        parts = []
        for at, (name, value) in enumerate(known.items()):
            y = _TOP + at * 34
            width, colour = max(1.0, value / most * space), _COLOURS[at % len(_COLOURS)]
            parts.append(
                f'<text x="{_LEFT + 30}" y="{y + 17}" text-anchor="end">{escape(name)}</text>'
                f'<rect x="{_LEFT + 38}" y="{y}" width="{width:.1f}" height="24" fill="{colour}"/>'
                f'<text x="{_LEFT + 44 + width:.1f}" y="{y + 17}">{number(value)} {escape(self.unit)}</text>'
            )
        return _framed(self.title, parts, _TOP + len(known) * 34 + 6)


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over time, on a logarithmic scale: what is compared may be a hundred times apart.

    Attributes:
        series: Points ``(x, y)`` by name; those that are not above zero are left out.
    """

    title: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    x: str
    y: str

    def svg(self) -> str:
        """The picture."""
        shown = {
            name: [(x, y) for x, y in points if math.isfinite(y) and y > 0]
            for name, points in self.series.items()
        }
        points = [point for each in shown.values() for point in each]
        if not points:
            return _framed(self.title, [f'<text x="{_LEFT}" y="60">nothing was seen</text>'], 80)
        right = max(x for x, _ in points) or 1.0
        low = math.floor(math.log10(min(y for _, y in points)))
        high = max(low + 1, math.ceil(math.log10(max(y for _, y in points))))

        def place(x: float, y: float) -> tuple[float, float]:
            share = (math.log10(y) - low) / (high - low)
            width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
            return _LEFT + x / right * width, _TOP + (1 - share) * height

        parts = [_rule(place(0, 10.0**power)[1], f"{10.0**power:g}") for power in range(low, high + 1)]
        for tick in range(5):
            x, _ = place(right * tick / 4, 10.0**low)
            text = number(round(right * tick / 4))
            parts.append(f'<text x="{x:.0f}" y="{_HEIGHT - 22}" text-anchor="middle">{text}</text>')
        parts.append(
            f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">{escape(self.x)}</text>'
        )
        step = min(130, (_WIDTH - _LEFT - _RIGHT) // len(shown))
        for at, (name, each) in enumerate(shown.items()):
            path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in each)
            colour = _COLOURS[at % len(_COLOURS)]
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
            parts.append(
                f'<text x="{_LEFT + 8 + at * step}" y="{_TOP + 12}" fill="{colour}">{escape(name)}</text>'
            )
        return _framed(f"{self.title}: {self.y}", parts, _HEIGHT)


Plot = Bars | Lines


def _rule(y: float, text: str) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    )


def _framed(title: str, parts: Sequence[str], height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(title, quote=True)}" font-family="sans-serif" font-size="12">'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="4" y="16" font-weight="bold">{escape(title)}</text>{"".join(parts)}</svg>'
    )


def html(title: str, machine: str, tables: Sequence[tuple[str, Sequence[str]]], plots: Sequence[Plot]) -> str:
    """The page: pictures first, then each section's text and tables."""
    parts = [f"<h1>{escape(title)}</h1><p>{escape(machine)}</p>", *(plot.svg() for plot in plots)]
    for heading, lines in tables:
        parts.append(f"<h2>{escape(heading)}</h2>{_body(lines)}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _body(lines: Sequence[str]) -> str:
    """Paragraphs and tables of Markdown; no more of it is used."""
    parts: list[str] = []
    rows: list[list[str]] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if set(line) - set("|-"):
                rows.append(cells)
            continue
        if rows:
            parts.append(_table(rows))
            rows = []
        if line:
            parts.append(f"<p>{_text(line)}</p>")
    return "".join(parts)


def _text(line: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(line))


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    made = [f"<tr>{''.join(f'<th>{_text(cell)}</th>' for cell in head)}</tr>"]
    for row in rest:
        cells = "".join(f"<td{_kind(cell)}>{_text(cell)}</td>" for cell in row)
        made.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(made)}</table>"


def _kind(cell: str) -> str:
    for word in ("met", "missed"):
        if cell == word or cell.startswith(f"{word} "):
            return f' class="{word}"'
    return ""
