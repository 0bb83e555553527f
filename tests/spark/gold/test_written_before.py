"""Views of releases to 0.2.0, whose statements a library wrote anew: which of these meant something else."""

from __future__ import annotations

from typing import Any

import pytest

from gold.view.written_before import meant_otherwise

OTHER = [
    "select 'O''Brien' as x from __in0__",
    "select at - interval 1 day 2 hours as x from __in0__",
    "select percentile_cont(0.5) within group (order by v) as x from __in0__",
    "select percentile(v, 0.5, length(s)) as x from __in0__",
    "select listagg(s) as x from __in0__",
    "select log10(v) as x from __in0__",
    "select parse_json(s) as x from __in0__",
    "select date_trunc(s, at) as x from __in0__",
]
SAME = [
    "select nvl(s, 'x') as x, if(v > 1, 'a', 'b') as y, v::bigint z from __in0__ as o where o.v!=1",
    "select s, count( * ) n, sum(v) as m from __in0__ group by s having n > 1 order by s desc",
    """with t as (select s, at - interval 1 day as d from __in0__) select t.s, l.w from t
    lateral view explode(split(s, ' ')) l as w where exists (select 1 from __in0__ i where i.s = t.s)""",
    "select s, row_number() over (partition by s order by at) as p from __in0__ /* and no more */",
    "select no_such as x from __in0__",
]


@pytest.mark.parametrize("text", [*OTHER, *SAME])
def test_a_text_that_a_library_wrote_is_another_one_only_if_spark_computes_something_else(
    spark: Any, text: str
) -> None:
    table = spark.createDataFrame([], "v double, s string, at timestamp")
    assert (meant_otherwise(text, [table]) is not None) == (text in OTHER)
