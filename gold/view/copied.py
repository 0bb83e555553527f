"""Which columns of a view are columns of its tables, unchanged: no arithmetic has made their values."""

from __future__ import annotations

from common.sql.expression import analyze
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll
from common.sql.statement import Statement


def copied_columns(statement: Statement) -> frozenset[str]:
    """The columns of a statement that are columns of its tables; none of one without relations."""
    return frozenset() if statement.relation is None else _copied(statement.relation)


def _copied(relation: Relation) -> frozenset[str]:
    below = [_copied(each) for each in relation.inputs]
    match relation:
        case Scan():
            return frozenset(relation.columns)
        case RowWise():
            return frozenset(name for name, there in relation.kept if there in below[0])
        case UnionAll():
            pairs = [
                {name for name, own in zip(relation.columns, each.columns, strict=True) if own in copied}
                for each, copied in zip(relation.inputs, below, strict=True)
            ]
            return frozenset(set.intersection(*pairs))
        case Joined():
            return frozenset().union(*below).intersection(relation.columns)
        case Keyed():
            paths = [analyze(key).path for key in relation.keys]
            return frozenset(name for name, at in relation.shown if (paths[at] or ("",))[0] in below[0])
