"""The statements that the test of views draws are of every kind that it is about."""

from __future__ import annotations

from collections import Counter
from random import Random

import sqlglot

from common.sql.relations import Joined, Keyed, UnionAll, below
from common.sql.statement import read_statement
from common.sql.way import way_of
from tests.support.oracles.view_statements import COLUMNS, draw

TABLES = {table: [each.split()[0] for each in columns.split(", ")] for table, columns in COLUMNS.items()}


def test_drawn_statements_are_kept_in_each_way_and_have_each_relation() -> None:
    ways, kinds = Counter[str](), set[str]()
    for seed in range(300):
        sql = draw(Random(seed)).sql()  # noqa: S311  # a seeded case, no secret
        assert sqlglot.transpile(sql, read="spark", write="duckdb")
        statement = read_statement(sql, TABLES)
        ways[way_of(statement).kept] += 1
        for each in below(statement.relation) if statement.relation is not None else ():
            kinds |= {each.kind} if isinstance(each, Joined | Keyed) else {type(each).__name__}
    assert min(ways["by row"], ways["by key"]) >= 30 > ways["whole"] > 0
    assert kinds >= {"inner", "left", "right", "full", "semi", "anti", "group", "distinct", "window"}
    assert UnionAll.__name__ in kinds
