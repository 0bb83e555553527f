"""The delta rule: how the rows of a relation change when its tables do.

A change is a frame of rows with a weight: what a relation was, plus its change, is what it is now, as a
multiset. Filters, projections, generators and unions pass changes on row by row. An inner join of A and B
changes by dA with B as it is now, and A as it was before with dB. Everything else follows from the rows of a
key: its touched keys are those of its input's change; their rows are taken away as they were, and added as
they are now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, VariantType

from common.rows.computed import with_columns
from common.rows.rows import Rows
from common.spark.broadcast import broadcast_if_small
from common.spark.types import contains_type
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll
from gold.view.versions import WEIGHT, Versions

_NUMBERS = count()


@dataclass(frozen=True)
class Touched:
    """Keys whose rows are computed, and nothing else.

    Attributes:
        keys: The keys; a column ``__key<place>`` per expression, compared null-safe.
        by: The key's expressions over a relation's columns.
    """

    keys: Rows
    by: Sequence[str]


@dataclass(frozen=True)
class DeltaRule:
    """The relations of one micro-batch.

    Attributes:
        versions: The tables, before and now.
        keep: Computes rows once, until the micro-batch is written.
    """

    versions: Versions
    keep: Callable[[DataFrame], Rows]

    def change(self, relation: Relation) -> DataFrame | None:
        """The change of a relation, with ``WEIGHT``; None where none of its tables has changed."""
        match relation:
            case Scan():
                return self._change_of_table(relation)
            case RowWise():
                change = self.change(relation.input)
                return None if change is None else sql(relation.text(f"`{WEIGHT}`"), change)
            case UnionAll():
                return _union(
                    change.toDF(*relation.columns, WEIGHT)
                    for each in relation.inputs
                    if (change := self.change(each)) is not None
                )
            case Joined():
                return self._change_of_join(relation)
            case Keyed():
                touched = self.touched(relation)
                return None if touched is None else self._replaced(relation, touched)

    def rows(self, relation: Relation, touched: Touched | None = None, *, before: bool = False) -> DataFrame:
        """The rows of a relation now or before; with ``touched`` those of its keys alone."""
        bounds = {} if touched is None else _bounds(relation, touched)
        rows = self._rows(relation, bounds, before=before)
        return rows if touched is None else _with_keys(rows, touched)

    def rows_of(self, relation: Keyed, touched: Touched | None = None, *, before: bool = False) -> DataFrame:
        """The rows of a keyed relation, computed from the rows of the touched keys alone."""
        return sql(relation.text, self.rows(relation.input, touched, before=before))

    def touched(self, relation: Keyed) -> Touched | None:
        """The keys of a relation that the changes of its input touch; None where there is no change."""
        change = self.change(relation.input)
        return None if change is None else self._keys(change, relation.keys)

    def _change_of_table(self, scan: Scan) -> DataFrame | None:
        if not self.versions.changed(scan.table):
            return None
        return consolidated(self.versions.changes(scan))

    def _change_of_join(self, join: Joined) -> DataFrame | None:
        left, right = self.change(join.left), self.change(join.right)
        ours, theirs = ([pair[side] for pair in join.equal] for side in (0, 1))
        if not join.is_linear:
            keys = [
                _keyed(change, by) for change, by in ((left, ours), (right, theirs)) if change is not None
            ]
            if not keys:
                return None
            wanted = self.keep(reduce(DataFrame.unionByName, keys).distinct())
            return self._rejoined(join, Touched(wanted, ours), Touched(wanted, theirs))
        found = []
        if left is not None:
            kept = self.keep(left).frame
            other = self._other_side(join.right, kept, ours, theirs, before=False)
            found.append(sql(join.text, kept, other))
        if right is not None:
            kept = self.keep(right).frame
            other = self._other_side(join.left, kept, theirs, ours, before=True)
            found.append(sql(join.text, other, kept))
        columns = [*join.columns, WEIGHT]
        return _union(each.select(*(F.col(f"`{name}`") for name in columns)) for each in found)

    def _other_side(
        self, relation: Relation, change: DataFrame, by: Sequence[str], own: Sequence[str], *, before: bool
    ) -> DataFrame:
        """The rows of one side that may match a change of the other."""
        if not by:
            return self.rows(relation, before=before)
        touched = self._keys(change, by)
        return self.rows(relation, Touched(touched.keys, own), before=before)

    def _rejoined(self, join: Joined, left: Touched, right: Touched) -> DataFrame:
        """The touched rows of a join as they were, taken away, and as they are now, added."""

        def joined(*, before: bool) -> DataFrame:
            sides = (
                self.rows(join.left, left, before=before),
                self.rows(join.right, right, before=before),
            )
            return sql(join.text, *sides).withColumn(WEIGHT, F.lit(-1 if before else 1))

        return consolidated(joined(before=True).unionByName(joined(before=False)))

    def _replaced(self, relation: Keyed, touched: Touched) -> DataFrame:
        old = self.rows_of(relation, touched, before=True).withColumn(WEIGHT, F.lit(-1))
        new = self.rows_of(relation, touched).withColumn(WEIGHT, F.lit(1))
        return consolidated(old.unionByName(new))

    def _keys(self, change: DataFrame, by: Sequence[str]) -> Touched:
        return Touched(self.keep(_keyed(change, by).distinct()), by)

    def _rows(self, relation: Relation, bounds: Mapping[int, Column], *, before: bool) -> DataFrame:
        match relation:
            case Scan():
                return self.versions.rows(relation, before=before, where=bounds.get(id(relation)))
            case UnionAll():
                parts = (self._rows(each, bounds, before=before) for each in relation.inputs)
                return reduce(DataFrame.union, (part.toDF(*relation.columns) for part in parts))
            case _:
                text = relation.text() if isinstance(relation, RowWise) else relation.text
                return sql(text, *(self._rows(each, bounds, before=before) for each in relation.inputs))


def sql(text: str, *inputs: DataFrame) -> DataFrame:
    """The result of a SQL text over frames, which it names ``__in0__``, ``__in1__`` and so on."""
    session = inputs[0].sparkSession
    names = [f"__view_input_{next(_NUMBERS)}" for _ in inputs]
    try:
        for place, (name, frame) in enumerate(zip(names, inputs, strict=True)):
            frame.createOrReplaceTempView(name)
            text = text.replace(f"__in{place}__", name)
        return session.sql(text)
    finally:
        for name in names:
            session.catalog.dropTempView(name)


def consolidated(change: DataFrame) -> DataFrame:
    """The change with one row per value; rows that were taken away and added again are gone."""
    names = [name for name in change.columns if name != WEIGHT]
    if contains_type(change.schema, MapType, VariantType):
        return change
    grouped = change.groupBy(*(F.col(f"`{name}`") for name in names))
    return grouped.agg(F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)


def _union(frames: Iterable[DataFrame]) -> DataFrame | None:
    found = list(frames)
    return reduce(DataFrame.unionByName, found) if found else None


def _keyed(change: DataFrame, by: Sequence[str]) -> DataFrame:
    return change.select(*(F.expr(f"({text})").alias(f"__key{place}") for place, text in enumerate(by)))


def _with_keys(rows: DataFrame, touched: Touched) -> DataFrame:
    """The rows that have one of the keys."""
    own = {f"__own{place}": text for place, text in enumerate(touched.by)}
    same = (F.col(name).eqNullSafe(F.col(f"__key{place}")) for place, name in enumerate(own))
    keys = broadcast_if_small(touched.keys.frame, touched.keys.count)
    return with_columns(rows, own).join(keys, reduce(and_, same), "left_semi").drop(*own)


def _bounds(relation: Relation, touched: Touched) -> Mapping[int, Column]:
    """Literal bounds of the keys on columns of tables, by which Delta skips files; by the scan's identity."""
    found: dict[int, Column] = {}
    for place, text in enumerate(touched.by):
        plain = text.strip("`")
        traced = _traced(relation, plain) if text == f"`{plain}`" else None
        if traced is None:
            continue
        scan, column = traced
        conditions = touched.keys.renamed({f"__key{place}": column}).bounds([column])
        for condition in conditions:
            found[id(scan)] = found[id(scan)] & condition if id(scan) in found else condition
    return found


def _traced(relation: Relation, column: str) -> tuple[Scan, str] | None:
    """The table column that a relation column is, if a condition on either leaves out the same rows."""
    match relation:
        case Scan():
            source = {name: read for read, name in relation.read}.get(column)
            return None if source is None else (relation, source)
        case RowWise():
            below = dict(relation.kept).get(column)
            return None if below is None else _traced(relation.input, below)
        case Keyed():
            place = dict(relation.shown).get(column)
            return None if place is None else _traced(relation.input, relation.keys[place].strip("`"))
        case Joined():
            if column in relation.left.columns and relation.kind not in {"right", "full"}:
                return _traced(relation.left, column)
            if column in relation.right.columns and relation.kind in {"inner", "cross", "right"}:
                return _traced(relation.right, column)
    return None
