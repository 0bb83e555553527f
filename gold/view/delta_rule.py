"""The delta rule: how the rows of a relation change when its tables do.

A change is a frame of rows with a weight: what a relation was, plus its change, is what it is now, as a
multiset. Filters, projections, generators and unions pass changes on row by row. An inner join of A and B
changes by dA with B as it is now, and A as it was before with dB. Everything else follows from the rows of a
key: its touched keys are those of its input's change; their rows are taken away as they were, and added as
they are now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from common.delta.changes import grouped_exactly
from common.rows.rows import Rows
from common.spark import jvm
from common.spark.broadcast import broadcast_if_small
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll, nested, scans, with_inputs
from gold.view.versions import WEIGHT, Near, Versions

_NUMBERS = count()


@dataclass(frozen=True)
class Key:
    """What rows of a relation have in common that belong together."""

    by: Sequence[str]  # expressions over the relation's columns
    compared: Sequence[str]  # each as it is compared, such as in a wider type


@dataclass(frozen=True)
class Touched:
    """Keys whose rows are computed, and nothing else."""

    keys: Rows  # the keys; a column ``__key<place>`` per expression, compared null-safe
    key: Key  # what gives the key of a relation's row


@dataclass(frozen=True)
class Types:
    """What Spark says of the relations of a statement."""

    # The columns of each union; those of one of its sides may be narrower.
    columns: Mapping[Relation, StructType]
    # The key of each of the two sides of a join, made of its ``equal``: as Spark compares them, so that two
    # keys are equal exactly where the statement finds them equal.
    equal: Mapping[Relation, tuple[Key, Key]]


@dataclass(frozen=True)
class DeltaRule:
    """The relations of one micro-batch."""

    versions: Versions  # the tables, before and now
    keep: Callable[[DataFrame], Rows]  # computes rows once, until the micro-batch is written
    types: Types  # those of the relations

    def change(self, relation: Relation) -> DataFrame | None:
        """The change of a relation, with ``WEIGHT``; None where none of its tables has changed."""
        match relation:
            case Scan():
                return self._change_of_table(relation)
            case RowWise():
                change = self.change(relation.input)
                return None if change is None else sql(relation.text(f"`{WEIGHT}`"), change)
            case UnionAll():
                columns = self.types.columns[relation]
                changes = (self.change(each) for each in relation.inputs)
                return _union(_typed(each, columns) for each in changes if each is not None)
            case Joined():
                return self._change_of_join(relation)
            case Keyed():
                touched = self.touched(relation)
                is_same = touched is None or not touched.keys.count
                return None if touched is None or is_same else self._replaced(relation, touched)

    def rows(self, relation: Relation, touched: Touched | None = None, *, before: bool = False) -> DataFrame:
        """The rows of a relation now or before; with ``touched`` those of its keys alone."""
        near = {} if touched is None else _near(relation, touched)
        rows = self._rows(relation, near, before=before)
        return rows if touched is None or not touched.key.by else _with_keys(rows, touched)

    def rows_of(self, relation: Keyed, touched: Touched | None = None, *, before: bool = False) -> DataFrame:
        """The rows of a keyed relation, computed from the rows of the touched keys alone."""
        return sql(relation.text, self.rows(relation.input, touched, before=before))

    def touched(self, relation: Keyed) -> Touched | None:
        """The keys of a relation that the changes of its input touch; None where there is no change."""
        change, key = self.change(relation.input), Key(relation.keys, relation.keys)
        if change is None:
            return None
        if not relation.keys:  # one group of all rows, which any row touches
            return Touched(self.keep(consolidated(change).select(F.lit(1).alias("__row")).limit(1)), key)
        return Touched(self._kept_keys(_keyed(change, key)), key)

    def _change_of_table(self, scan: Scan) -> DataFrame | None:
        if not self.versions.changed(scan.table):
            return None
        change = consolidated(self.versions.changes(scan))
        # Else Spark would filter the rows by the statement's conditions before they are left out.
        return self.keep(change).frame if self.versions.is_again else change

    def _change_of_join(self, join: Joined) -> DataFrame | None:
        left, right = self.change(join.left), self.change(join.right)
        ours, theirs = self.types.equal[join]
        if not join.is_linear:
            changes = (left, ours), (right, theirs)
            keys = [_keyed(change, key) for change, key in changes if change is not None]
            return self._rejoined(join, self._kept_keys(reduce(DataFrame.union, keys))) if keys else None
        found = []
        if left is not None:
            kept = self.keep(left).frame
            found.append(sql(join.text, kept, self._meeting(join.right, kept, ours, theirs, before=False)))
        if right is not None:
            kept = self.keep(right).frame
            found.append(sql(join.text, self._meeting(join.left, kept, theirs, ours, before=True), kept))
        columns = [F.col(f"`{name}`") for name in (*join.columns, WEIGHT)]
        return _union(each.select(*columns) for each in found)

    def _meeting(
        self, relation: Relation, change: DataFrame, of_change: Key, own: Key, *, before: bool
    ) -> DataFrame:
        """The rows of one side of a join that may match a change of the other."""
        if not own.by:
            return self.rows(relation, before=before)
        touched = Touched(self._kept_keys(_keyed(change, of_change)), own)
        return self.rows(relation, touched, before=before)

    def _rejoined(self, join: Joined, keys: Rows) -> DataFrame:
        """The touched rows of a join as they were, taken away, and as they are now, added."""

        def joined(*, before: bool) -> DataFrame:
            sides = (
                self.rows(side, Touched(keys, key), before=before)
                for side, key in zip(join.inputs, self.types.equal[join], strict=True)
            )
            columns = (F.col(f"`{name}`") for name in join.columns)
            return sql(join.text, *sides).select(*columns, F.lit(-1 if before else 1).alias(WEIGHT))

        return consolidated(joined(before=True).unionByName(joined(before=False)))

    def _replaced(self, relation: Keyed, touched: Touched) -> DataFrame:
        old = self.rows_of(relation, touched, before=True).withColumn(WEIGHT, F.lit(-1))
        new = self.rows_of(relation, touched).withColumn(WEIGHT, F.lit(1))
        return consolidated(old.unionByName(new))

    def _kept_keys(self, keys: DataFrame) -> Rows:
        return self.keep(keys.distinct())

    def _rows(self, relation: Relation, near: Mapping[int, Near], *, before: bool) -> DataFrame:
        tables = [
            self.versions.rows(scan, before=before, near=near.get(id(scan))) for scan in scans(relation)
        ]
        places = count()
        return sql(f"SELECT * FROM {_nested(relation, places)}", *tables)  # noqa: S608


def _nested(relation: Relation, places: Iterator[int]) -> str:
    """The text of a relation over its tables, in the order of ``scans``."""
    if isinstance(relation, Scan):
        return f"__in{next(places)}__"
    text = relation.text() if isinstance(relation, RowWise) else relation.text
    return nested(text, *(_nested(each, places) for each in relation.inputs))


def sql(text: str, *inputs: DataFrame) -> DataFrame:
    """The result of a SQL text over frames, which it names ``__in0__``, ``__in1__`` and so on."""
    with views(inputs) as names:
        return inputs[0].sparkSession.sql(with_inputs(text, names))


@contextmanager
def views(frames: Sequence[DataFrame]) -> Iterator[Sequence[str]]:
    """Names by which SQL texts read some frames, within the block."""
    names = [f"__view_input_{next(_NUMBERS)}" for _ in frames]
    try:
        for name, frame in zip(names, frames, strict=True):
            frame.createOrReplaceTempView(name)
        yield names
    finally:
        for name in names:
            frames[0].sparkSession.catalog.dropTempView(name)


def consolidated(change: DataFrame) -> DataFrame:
    """The change with one row per value; rows that were taken away and added again are gone."""
    values = StructType([each for each in change.schema if each.name != WEIGHT])
    summed = grouped_exactly(change, values, F.sum(WEIGHT).alias(WEIGHT))
    return summed.where(F.col(WEIGHT) != 0)


def _union(frames: Iterable[DataFrame]) -> DataFrame | None:
    found = list(frames)
    return reduce(DataFrame.unionByName, found) if found else None


def _typed(change: DataFrame, columns: StructType) -> DataFrame:
    """The change of one side of a union, in names and types of the union."""
    named = change.toDF(*columns.names, WEIGHT)
    values = (F.col(f"`{each.name}`").cast(each.dataType).alias(each.name) for each in columns)
    return named.select(*values, WEIGHT)


def _keyed(rows: DataFrame, key: Key, name: str = "__key", *more: str) -> DataFrame:
    """The keys of rows, each a column with a number behind its name; and further columns.

    Null is the key of a row for which an expression fails. The statement may leave that row out before it
    comes to the expression, by a condition on what is joined; where it does not, the row fails once more.
    """
    plain = {f"`{each}`" for each in rows.columns}
    keys = (
        (F.expr(text) if text in plain else jvm.try_eval(F.expr(f"({text})"))).alias(f"{name}{place}")
        for place, text in enumerate(key.compared)
    )
    return rows.select(*more, *keys)


def _with_keys(rows: DataFrame, touched: Touched) -> DataFrame:
    """The rows that have one of the keys."""
    # Spark computes window(…) in a projection only, and not in the condition of a join.
    keyed = _keyed(rows, touched.key, "__own", "*")
    own = keyed.columns[len(rows.columns) :]
    same = (F.col(each).eqNullSafe(F.col(f"__key{place}")) for place, each in enumerate(own))
    keys = broadcast_if_small(touched.keys.frame, touched.keys.count)
    return keyed.join(keys, reduce(and_, same), "left_semi").drop(*own)


def _near(relation: Relation, touched: Touched) -> Mapping[int, Near]:
    """Where columns of tables are keys, so that files are skipped by bounds; by the scan's identity."""
    found: dict[int, dict[str, str]] = {}
    for place, text in enumerate(touched.key.by):
        plain = text.strip("`")
        traced = _traced(relation, plain) if text == f"`{plain}`" else None
        if traced is not None:
            scan, column = traced
            found.setdefault(id(scan), {})[f"__key{place}"] = f"`{column}`"
    return {scan: Near(touched.keys, columns) for scan, columns in found.items()}


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
