"""What becomes of drawn statements in the product, beside what Spark gives for their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException

from common.errors import ForeignChangeError, MedallionError
from common.streaming.query import failure_of
from tests.support.drawn.checked import problems
from tests.support.drawn.kept_view import Frames, KeptView
from tests.support.drawn.oracle import Result, many_rows, names_of, rows_of_frames
from tests.support.drawn.parts import Part, smallest
from tests.support.drawn.statements import Statements
from tests.support.drawn.stored_view import StoredLife, StoredView
from tests.support.drawn.tables import draw_life

STATEMENTS_PER_LIFE = 40

Keep = Callable[[str], KeptView | StoredView]
"""Makes a view of a statement."""


@dataclass
class Drawn:
    """What became of drawn statements.

    Attributes:
        counts: How many statements had each end that is no fault.
        refused: Statements that Spark runs and the product refuses, with its first words.
        faults: The others: how they failed, and their seeds and texts.
    """

    counts: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)
    faults: list[tuple[str, str, str]] = field(default_factory=list)

    def told(self) -> str:
        """The faults, one after the other."""
        return "\n\n".join(f"{seed}: {how}\n  {sql}" for how, seed, sql in self.faults)


def try_statements(
    spark: Any,
    seeds: Sequence[str],
    constants: Mapping[str, Sequence[str]],
    versions: int,
    *,
    tries: int,
    folder: Path | None = None,
) -> Drawn:
    """Draw a statement for each seed, and keep it as a view over drawn lives of its tables.

    Args:
        spark: The session.
        seeds: The seeds.
        constants: Documented expressions by their type's letter.
        versions: How many versions each life has after the first.
        tries: How many smaller statements are tried in the place of one that fails.
        folder: Where the tables are stored; None: they are in memory.
    """
    drawn = Drawn()
    for first in range(0, len(seeds), STATEMENTS_PER_LIFE):
        some = seeds[first : first + STATEMENTS_PER_LIFE]
        frames = Frames(spark, draw_life(Random(some[0]), versions + 1))
        keep = _in_memory(frames) if folder is None else StoredLife(frames, folder / str(first)).view
        parts = [Statements(Random(seed), constants).statement() for seed in some]
        for seed, root, how in zip(some, parts, _ends(frames, keep, [*map(str, parts)], drawn), strict=True):
            if not how:
                continue
            kind = how.partition(":")[0]

            def fails(each: Part, frames: Frames = frames, keep: Keep = keep, kind: str = kind) -> bool:
                return _ends(frames, keep, [str(each)], Drawn())[0].partition(":")[0] == kind

            small = str(smallest(root, fails, tries)) if tries else str(root)
            drawn.faults.append((how, seed, small))
    return drawn


def _in_memory(frames: Frames) -> Keep:
    return lambda sql: KeptView("v", sql, frames)


def _ends(frames: Frames, keep: Keep, statements: Sequence[str], drawn: Drawn) -> list[str]:
    """How each statement fails; an empty text for one that does not."""
    ends = [""] * len(statements)
    want = many_rows(frames, 0, statements)
    views: dict[int, KeptView | StoredView] = {}
    for place, sql in enumerate(statements):
        found = _started(frames, keep, sql, want[place], drawn)
        if isinstance(found, str):
            ends[place] = found
        else:
            views[place] = found
    for version in range(frames.life.last + 1):
        if version:
            want = many_rows(frames, version, statements)
        else:
            _load(frames, views, ends)
        for place in list(views):
            ends[place] = ends[place] or _written(views[place], version, want[place])
            if ends[place] or not isinstance(want[place], Counter):
                del views[place]
    drawn.counts["kept"] += len(views)
    return ends


def _started(frames: Frames, keep: Keep, sql: str, want: Result, drawn: Drawn) -> KeptView | StoredView | str:
    """The view of a statement; how it fails, or nothing, where there is none."""
    is_invalid = isinstance(want, AnalysisException | ParseException)
    try:
        refusals = problems(sql, frames.life.columns)
    except Exception as error:  # noqa: BLE001  # whatever check raises is the fault that is looked for
        return f"check: {type(error).__name__} {_line(error)}"
    view = None
    if not refusals:
        try:
            view = keep(sql)
        except MedallionError as error:
            refusals = [str(error)]
        except PySparkException as error:
            if not is_invalid:
                return f"start: {type(error).__name__} {_line(error)}"
            refusals = [str(failure_of("gold.v", error))]
        except Exception as error:  # noqa: BLE001  # as above
            return f"start: {type(error).__name__} {_line(error)}"
    if view is not None and is_invalid:
        return f"run, though Spark does not: {_line(want)}"
    if view is not None and isinstance(want, Counter):
        return view
    drawn.counts["refused" if is_invalid else "refused though valid" if refusals else "fails for a row"] += 1
    if refusals and not is_invalid:
        drawn.refused.append((refusals[0], sql))
    return ""


def _load(frames: Frames, views: Mapping[int, KeptView | StoredView], ends: list[str]) -> None:
    """The first micro-batch of all views; those in memory are computed together."""
    for place, view in views.items():
        try:
            view.write(0, 0)
        except PySparkException as error:
            ends[place] = f"first load: {type(error).__name__} {_line(error)}"
    lazy = {place: view for place, view in views.items() if isinstance(view, KeptView) and not ends[place]}
    first = rows_of_frames([view.first for view in lazy.values()])
    for (place, view), rows in zip(lazy.items(), first, strict=True):
        found = [name.lower() for name in view.first.columns] if view.first is not None else []
        if found != (names := names_of(frames, view.sql.strip().rstrip(";"))):
            ends[place] = f"first load differs: columns {found}, not {names}"
        elif isinstance(rows, Counter):
            view.rows = rows
        else:
            ends[place] = f"first load: {type(rows).__name__} {_line(rows)}"


def _written(view: KeptView | StoredView, version: int, want: Result) -> str:
    """How a view's micro-batch fails; the first one has been written."""
    what = f"version {version}" if version else "first load"
    if not isinstance(want, Counter):
        return ""
    if version:
        try:
            view.write(version, version)
        except PySparkException as error:
            return f"increment fails: {type(error).__name__} {_line(error)}"
        except (AssertionError, ForeignChangeError) as error:
            return f"increment lacks: {_line(error)}"
    if view.rows == want:
        return ""
    how = "increment" if version else "first load"
    return f"{how} differs: {what}: too much {dict(view.rows - want)}, lacks {dict(want - view.rows)}"


def _line(error: Any) -> str:
    return str(error).split("\n", 1)[0][:200]
