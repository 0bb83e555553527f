"""An edit that is taken for none gives the same rows, whatever the tables have: Spark over both texts."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from common.declare import Aggregate, View
from common.errors import MedallionError
from gold.table.declaration_marks import changed_attributes, meaning
from tests.support.drawn.edits import Edit, draw_edit
from tests.support.drawn.expressions import Column, Drawer, letter_of
from tests.support.drawn.kept_view import Frames
from tests.support.drawn.oracle import Result, many_rows, other_plans
from tests.support.drawn.statements import Statements
from tests.support.drawn.tables import COLUMNS, draw_life

EDITS = 8_000
_COLUMNS = [
    Column(name, letter_of(kind), name) for name, kind in COLUMNS["silver.orders"].items() if name.isalpha()
]


def _of_a_view(random: Random) -> Edit | None:
    return draw_edit(random, str(Statements(random).statement()))


def _of_an_expression(random: Random) -> Edit | None:
    drawer = Drawer(random, {})
    first, second, third = (drawer.condition(_COLUMNS) for _ in range(3))
    return draw_edit(random, f"{first} and ({second} or {third})")


def _is_change(edit: Edit, *, of_view: bool) -> bool:
    one, other = (
        meaning(
            View("v", sql=text)
            if of_view
            else Aggregate("a", reads="silver.orders", by=["k"], measures={"n": "count(*)"}, where=text)
        )
        for text in (edit.before, edit.after)
    )
    return changed_attributes(one, other) != ()


@pytest.mark.long
@pytest.mark.parametrize("of_view", [True, False])
def test_an_edit_that_is_no_change_gives_the_same_rows(plain: Any, of_view: bool) -> None:  # noqa: FBT001
    kept: list[tuple[str, str, str]] = []
    for seed in range(EDITS):
        random = Random(f"rows {seed}")
        edit = _of_a_view(random) if of_view else _of_an_expression(random)
        try:
            if edit is not None and not _is_change(edit, of_view=of_view):
                kept.append((f"{seed} {edit.what}", edit.before, edit.after))
        except MedallionError:
            continue  # one of the texts is refused, so nothing runs with it
    frames = Frames(plain, draw_life(Random("edits"), 1, rows=12))
    texts = [
        tuple(text if of_view else f"select id from silver.orders where ({text}\n)" for text in pair)
        for _, *pair in kept
    ]
    other = other_plans(frames, 0, texts)
    rows = [many_rows(frames, 0, [texts[place][side] for place in other]) for side in (0, 1)]
    wrong = [
        kept[place] for place, before, after in zip(other, *rows, strict=True) if not _is_same(before, after)
    ]
    assert wrong == []
    assert len(kept) > EDITS / 40


def _is_same(before: Result, after: Result) -> bool:
    """Whether both have the same rows, or both fail: a row at which a statement fails is a value of its own."""
    if isinstance(before, Counter) and isinstance(after, Counter):
        return before == after
    return not isinstance(before, Counter) and not isinstance(after, Counter)
