"""Views that a release to 0.2.0 kept by another text than their author's.

Those releases gave Spark each statement as a library wrote it anew. Where that text means something else, the
table has rows of another meaning, and a start must not go on adding to them.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from sqlglot.errors import SqlglotError

from common.declare import View
from common.declare.declared import source_of
from common.delta.checkpoint import Checkpoint
from common.delta.match.checkpoint_match import last_commit_metadata
from common.errors import PipelineError, Problem
from common.spark.jvm import is_same_plan
from common.sql.statement import Statement
from gold.table.context import Context
from gold.table.declaration_marks import is_of_former_release
from gold.view.delta_rule import sql


def refuse_other_meaning(
    context: Context, gold: View, statement: Statement, tables: Sequence[DataFrame]
) -> None:
    """Refuse a view whose table has rows of a text that meant something else.

    Raises:
        PipelineError: Names both texts, and the command that fills the table again.
    """
    last = last_commit_metadata(context.path(gold.table), gold.table)
    own = Checkpoint(context.checkpoint(gold)).query_id()  # after a rebuild another one, whose rows are new
    if last is None or last["query_id"] != own or not is_of_former_release(last.get("declared") or {}):
        return
    before = meant_otherwise(statement.over_inputs, tables)
    if before is None or gold.table in context.settings.gold.accept_changed:
        return
    text = (
        "a release to 0.2.0 filled the table by another text than yours, which means something else. Fill it "
        f"again: medallion rebuild {gold.table}; or keep the existing rows as they are: --set "
        f"'gold.accept_changed=[\"{gold.table}\"]'. The text was: {before}"
    )
    raise PipelineError([Problem(f"{gold.table}, sql", text, source_of(gold))])


def meant_otherwise(text: str, tables: Sequence[DataFrame]) -> str | None:
    """The text that a release to 0.2.0 gave to Spark, if Spark computes something else by it.

    Nothing is read: the plans are compared as Spark analyzes them, then as it optimizes them.
    """
    try:
        before = sqlglot.parse_one(text, dialect="spark").sql(dialect="spark")
        then, now = sql(before, *tables), sql(text, *tables)
    except (SqlglotError, AnalysisException, ParseException):
        return None  # such a text has filled no table
    if [each.dataType for each in then.schema] != [each.dataType for each in now.schema]:
        return before
    return None if is_same_plan(then, now) else before
