"""Views equal Spark's answer to the author's own text after every version of their tables, case by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from common.errors import MedallionError
from tests.pipeline.gold.statements.cases import CASES, MOMENTS, SHARED, Case
from tests.support.drawn.checked import problems
from tests.support.drawn.kept_view import Frames, KeptView, texts
from tests.support.drawn.oracle import Result, databases, rows_of, set_tables
from tests.support.drawn.tables import counted

SHORT = {
    "A doubled quotes of a pattern",
    "B having in a derived table",
    "C1 an alias in a derived table and outside",
    "C2 mean below the last step",
    "C4 a map among the columns",
    "D1 by key over a union of types",
    "D3 full join of a text and int",
    "N5 a hash of all columns",
    "N9 an alias q1 beside IN",
}
"""One of each kind; the shards run all."""


def _params(*, are_refused: bool) -> list[Any]:
    return [
        pytest.param(case, id=case.name, marks=[] if case.name in SHORT else [pytest.mark.long])
        for case in CASES
        if case.is_refused == are_refused
    ]


@pytest.fixture(scope="module", name="frames")
def _frames(plain: Any) -> Iterator[Frames]:
    with databases(plain):
        yield Frames(plain, SHARED)


@pytest.fixture(scope="module", name="wanted")
def _wanted(frames: Frames, request: pytest.FixtureRequest) -> Mapping[str, list[Result]]:
    """What Spark gives for the text of each case of this run, version for version."""
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    cases = [call.params["case"] for call in calls if isinstance(call.params.get("case"), Case)]
    found: dict[str, list[Result]] = {case.name: [] for case in cases}
    for version in range(SHARED.last + 1):
        set_tables(frames, version)
        for case, rows in zip(cases, rows_of(frames.spark, [case.sql for case in cases]), strict=True):
            found[case.name].append(rows)
    return found


@pytest.mark.parametrize("case", _params(are_refused=False))
def test_a_view_has_the_rows_of_its_text(
    frames: Frames, wanted: Mapping[str, list[Result]], case: Case
) -> None:
    assert problems(case.sql, SHARED.columns) == []
    view = KeptView("v", case.sql, frames)
    for version in range(case.last + 1):
        view.write(version, version)
        if version == 0:
            assert view.first is not None
            view.rows = Counter(texts(view.first))
            names = frames.spark.sql(case.sql.strip().rstrip(";")).columns
            assert [*map(str.lower, view.first.columns)] == [*map(str.lower, names)]
        assert view.rows == wanted[case.name][version]
    if case.want is not None:
        assert view.rows == counted(case.want)


@pytest.mark.parametrize("case", _params(are_refused=True))
def test_what_cannot_be_kept_is_refused_in_words(frames: Frames, case: Case) -> None:
    if problems(case.sql, SHARED.columns) == []:
        with pytest.raises((MedallionError, AnalysisException, ParseException)):
            KeptView("v", case.sql, frames)
        assert case not in MOMENTS, "Spark runs it"
