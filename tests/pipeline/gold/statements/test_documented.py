"""Every expression that Spark documents has, in a View, the value that Spark documents: first load and increments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.errors import PySparkException

from common.sql.functions import NON_DETERMINISTIC
from tests.support.drawn.checked import problems
from tests.support.drawn.kept_view import Frames, KeptView
from tests.support.drawn.oracle import many_rows, rows_of_frames
from tests.support.drawn.spark_examples import Example, spark_examples
from tests.support.drawn.tables import Life

ONE = Life({"silver.one": {"id": "int"}}, {"silver.one": [[(1, (1,))], [(1, (2,))]]})
AT_ONCE = 40
_EXPRESSION = re.compile(r"select\s+((?:(?!\bfrom\b|\bas\s+\w+\s*$).)+)", re.IGNORECASE | re.DOTALL)
_GENERATOR = re.compile(r"(explode|posexplode|inline|stack|json_tuple)\w*\s*\(", re.IGNORECASE)
"""It stands alone: Spark takes none inside of another expression."""
_OF_A_MOMENT = re.compile(
    rf"\b({'|'.join(NON_DETERMINISTIC)}|current_\w+|session_user|user|version)\b"
    r"|unix_timestamp\(\)|'now'",
    re.IGNORECASE,
)
"""What has another value in another session or at another time."""


@pytest.fixture(scope="module", name="examples")
def _examples(plain: Any) -> list[Example]:
    found = {each.sql: each for each in spark_examples(plain) if not each.has_raw_literals}
    return [each for each in found.values() if not _OF_A_MOMENT.search(each.sql)]


def _views(examples: Sequence[Example]) -> Iterator[tuple[str, str]]:
    """Each example as part of a SELECT list, or as a derived table, with the statement of that alone."""
    for each in examples:
        found = _EXPRESSION.fullmatch(each.sql)
        if found is not None:
            yield found[1], f"select o.id, {found[1]} as c0 from silver.one o"
        else:
            yield "", f"select o.id, t.* from silver.one o cross join ({each.sql}\n) as t"


def _batches(spark: Any, examples: Sequence[Example]) -> Iterator[str]:
    """Statements that have many examples; those that Spark refuses as a part of a list stand alone."""
    waiting: list[str] = []
    for text, alone in _views(examples):
        try:
            columns = spark.sql(alone.replace("silver.one", "range(1)")).dtypes
        except PySparkException:
            continue  # a generator, or one that fails by intention
        is_interval = any("interval" in kind for _, kind in columns)  # which is no column of a table
        if not text or len(columns) != 2 or _GENERATOR.match(text):
            is_named = not text or all(
                name.isidentifier() for name, _ in columns
            )  # a view's columns have names
            if len({name for name, _ in columns}) == len(columns) and is_named and not is_interval:
                yield alone
            continue
        waiting.append(f"cast({text} as string)" if is_interval else text)
        if len(waiting) == AT_ONCE:
            yield _listed(waiting)
            waiting = []
    if waiting:
        yield _listed(waiting)


def _listed(expressions: Sequence[str]) -> str:
    items = ", ".join(f"{text} as c{at}, typeof({text}) as t{at}" for at, text in enumerate(expressions))
    return f"select o.id, {items} from silver.one o"


def _of(spark: Any, examples: Sequence[Example]) -> list[str]:
    """How the views of some examples differ from Spark's own rows."""
    frames = Frames(spark, ONE)
    wrong = []
    for sql in _batches(spark, examples):
        told = problems(sql, ONE.columns)
        if told and "has an output column without a name" in told[0]:
            continue  # an example with several columns; a view's columns have names
        if told:
            wrong.append(f"refused: {told[0]} | {sql[:300]}")
            continue
        want = [many_rows(frames, version, [sql])[0] for version in (0, 1)]
        if not isinstance(want[1], Counter):
            continue  # one that fails by intention
        view = KeptView("v", sql, frames)
        view.write(0, 0)
        view.rows = rows_of_frames([view.first])[0]
        for version in (0, 1):
            if version:
                view.write(version, version)
            wrong += [f"version {version}: {one}" for one in _differences(view.rows, want[version], sql)]
    return wrong


def _differences(have: Any, want: Any, sql: str) -> Iterator[str]:
    if have == want:
        return
    if not isinstance(have, Counter):
        yield f"{have} | {sql[:300]}"
        return
    for one, other in zip(sorted(have, key=repr), sorted(want, key=repr), strict=False):
        for at, (value, expected) in enumerate(zip(one, other, strict=False)):
            if value != expected:
                yield f"column {at}: {value!r}, not {expected!r} | {sql[:200]}"


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.long)])
def test_a_view_of_a_documented_expression_has_its_value(
    plain: Any, examples: list[Example], every: int
) -> None:
    assert _of(plain, examples[::every]) == []
