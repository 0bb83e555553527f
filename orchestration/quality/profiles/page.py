"""The profile of a table as one HTML page: no script, no request to another server."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from orchestration.quality.judgement import number, percent
from orchestration.quality.profiles.describe import ColumnProfile, TableProfile

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #5b8def; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0 1rem; } .type { color: #888; font-weight: normal; font-size: .85em; margin-left: .6em; }
section { border-top: 1px solid var(--line); padding: .6rem 0; display: grid; gap: 0 2rem;
  grid-template-columns: 17rem 1fr; }
h3 { grid-column: 1 / -1; font-size: 1rem; margin: .2rem 0 .5rem; }
dl { display: grid; align-content: start; grid-template-columns: max-content 1fr; gap: .1rem 1rem;
  margin: 0; }
dt { color: #888; } dd { margin: 0; overflow-wrap: anywhere; }
svg { width: 100%; height: 5rem; } rect { fill: var(--bar); }
table { border-collapse: collapse; width: 100%; }
td { padding: .05rem .5rem .05rem 0; vertical-align: middle; }
td.n { text-align: right; font-variant-numeric: tabular-nums; width: 6rem; }
td.b { width: 40%; } .bar { background: var(--bar); height: .7rem; border-radius: 2px; min-width: 1px; }
pre { background: var(--soft); padding: 1rem; border-radius: 6px; overflow-x: auto; font-size: .85rem; }
@media (max-width: 40rem) { section { grid-template-columns: 1fr; } }
"""
_VALUES = 10
_WIDTH, _HEIGHT = 480, 80
_WORD = 60


def page(profile: TableProfile, code: str) -> str:
    """The page: the figures of each column, and the proposed suite."""
    left_out = f" Not described: {escape(', '.join(profile.left_out))}." if profile.left_out else ""
    title = f"{escape(profile.table)}, version {profile.version}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{profile.rows:,} rows, {len(profile.columns)} columns.{left_out}</p>"
        f"{''.join(_section(column) for column in profile.columns)}"
        f"<h2>Proposed suite</h2><pre>{escape(code)}</pre></body></html>"
    )


def _section(column: ColumnProfile) -> str:
    share = percent(column.nulls / column.rows) if column.rows else "0 %"
    facts = [
        ("nulls", f"{column.nulls:,} ({share})" if column.nulls else "none"),
        ("distinct", f"{'' if column.is_exact else 'about '}{column.distinct:,}"),
        ("least", _short(number(column.least))),
        ("greatest", _short(number(column.most))),
    ]
    if column.kind == "number" and column.quantiles:
        names = ("1 %", "25 %", "median", "75 %", "99 %")
        # They are approximate: more digits would say nothing.
        facts += [
            (name, number(float(f"{value:.6g}"))) for name, value in zip(names, column.quantiles, strict=True)
        ]
    listed = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    head = f"<h3>{escape(column.name)}<span class='type'>{escape(column.type)}</span></h3>"
    return f"<section>{head}<dl>{listed}</dl><div>{_picture(column)}</div></section>"


def _picture(column: ColumnProfile) -> str:
    if column.bins:
        return _histogram(column.bins)
    if not column.frequent or column.frequent[0][1] == 1:
        return ""
    most = column.frequent[0][1]
    rows = "".join(
        f"<tr><td>{escape(_short(str(value)))}</td><td class='n'>{count:,}</td>"
        f"<td class='b'><div class='bar' style='width:{100 * count / most:.1f}%'></div></td></tr>"
        for value, count in column.frequent[:_VALUES]
    )
    return f"<table>{rows}</table>"


def _histogram(bins: Sequence[int]) -> str:
    width, most = _WIDTH / len(bins), max(bins)
    bars = "".join(
        f"<rect x='{place * width:.1f}' y='{_HEIGHT - _HEIGHT * count / most:.1f}' "
        f"width='{width - 1:.1f}' height='{_HEIGHT * count / most:.1f}'><title>{count:,} rows</title></rect>"
        for place, count in enumerate(bins)
    )
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return (
        f"<svg viewBox='{box}' preserveAspectRatio='none' role='img' aria-label='distribution'>{bars}</svg>"
    )


def _short(text: str) -> str:
    return text if len(text) <= _WORD else f"{text[: _WORD - 1]}…"
