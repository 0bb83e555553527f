"""Views of releases to 0.2.0, whose statements a library wrote anew: which of these meant something else."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from common.declare import View
from common.errors import PipelineError
from common.sql.statement import read_statement
from gold.view.written_before import meant_otherwise, refuse_other_meaning

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


QUOTED, PLAIN = (
    "select id, 'O''Brien' as x from silver.ev",
    "SELECT id,nvl(name,'x') AS x FROM silver.ev WHERE v!=3",
)
"""As release 0.2.0 has kept them; its marks are those of its commits."""


@pytest.mark.parametrize(
    ("sql", "mark", "query_id", "accepted", "is_refused"),
    [
        (QUOTED, "6c2f6059", "q", [], True),
        (QUOTED, "6c2f6059", "after a rebuild", [], False),
        (QUOTED, "6c2f6059", "q", ["gold.v"], False),
        (QUOTED, "97bf8d5b/6c2f6059", "q", [], False),
        (PLAIN, "f5c92ba7", "q", [], False),
    ],
)
def test_a_table_of_a_release_before_is_refused_until_it_is_filled_again(
    spark: Any, tmp_path: Path, sql: str, mark: str, query_id: str, accepted: list[str], *, is_refused: bool
) -> None:
    told = {"format": 1, "query": "gold.v", "query_id": "q", "batch_id": 1, "declared": {"sql": mark}}
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(told)})
    write_deltalake(str(tmp_path / "v"), pa.table({"id": [1]}), commit_properties=properties)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text(json.dumps({"id": query_id}))
    context: Any = SimpleNamespace(
        path=lambda table: str(tmp_path / table.partition(".")[2]),
        checkpoint=lambda gold: str(tmp_path / "checkpoint"),
        settings=SimpleNamespace(gold=SimpleNamespace(accept_changed=accepted)),
    )
    table = spark.createDataFrame([], "id int, name string, v double")
    statement = read_statement(sql, {"silver.ev": table.columns})
    with pytest.raises(PipelineError, match=r"medallion rebuild gold\.v") if is_refused else nullcontext():
        refuse_other_meaning(context, View("v", sql=sql), statement, [table])
