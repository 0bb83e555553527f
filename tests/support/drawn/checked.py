"""What ``medallion check`` says of a statement over given tables, without Spark."""

from __future__ import annotations

from collections.abc import Mapping

from common.declare import View
from common.errors import DOUBTFUL, MedallionError
from common.schema.ddl import parse
from orchestration.author.check.view import view_problems
from orchestration.author.check.visible_columns import Scope


def problems(sql: str, tables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The problems of a view of a statement; none if it may be run, where ``check`` may have warnings.

    Args:
        sql: The statement.
        tables: Each table's columns, with their types.
    """
    scopes = {
        table: Scope(table, parse(", ".join(f"`{name}` {kind}" for name, kind in columns.items())))
        for table, columns in tables.items()
    }
    try:
        view = View("v", sql=sql)
    except MedallionError as error:
        return [str(error)]
    return [str(each) for each in view_problems(view, scopes) if each.code != DOUBTFUL]
