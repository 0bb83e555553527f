"""Views equal Spark's answer to the author's own text after every version of their tables, case by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from common.errors import MedallionError
from tests.pipeline.gold.statements.cases import CASES, MOMENTS, SHARED, Case
from tests.support.drawn.checked import problems
from tests.support.drawn.kept_view import Frames, KeptView, texts
from tests.support.drawn.oracle import databases, rows_of, set_tables
from tests.support.drawn.tables import counted


@pytest.fixture(scope="module", name="frames")
def _frames(spark: Any) -> Iterator[Frames]:
    with databases(spark):
        yield Frames(spark, SHARED)


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if not case.is_refused])
def test_a_view_has_the_rows_of_its_text(frames: Frames, case: Case) -> None:
    assert problems(case.sql, SHARED.columns) == []
    view = KeptView("v", case.sql, frames)
    for version in range(case.last + 1):
        view.write(version, version)
        if version == 0:
            view.rows = Counter(texts(view.first))
        set_tables(frames, view.view.sources, version)
        expected = rows_of(frames.spark, case.sql)
        assert isinstance(expected, Counter), expected
        assert view.rows == expected
    if case.want is not None:
        assert view.rows == counted(case.want)


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.is_refused])
def test_what_cannot_be_kept_is_refused_in_words(frames: Frames, case: Case) -> None:
    if problems(case.sql, SHARED.columns) == []:
        with pytest.raises((MedallionError, AnalysisException, ParseException)):
            KeptView("v", case.sql, frames)
        assert case not in MOMENTS, "Spark runs it"
