"""Rows collected in the driver: what is computed from them needs no Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StructField, StructType

from common.rows import latest_in_driver
from common.rows.collect import frame_of
from common.rows.expressions import Expression
from common.rows.key_bounds import bounds_in_driver
from common.rows.latest_in_driver import NotComparableError
from common.rows.rows import ORDER, Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from common.config.driver_limits import DriverLimits


class ArrowRows(Rows):
    """Rows collected in the driver; their frame is created on first use, and most rows need none.

    What the driver cannot compute is computed by Spark, without the caller's notice.
    """

    def __init__(
        self,
        like: Rows,
        arrow: pa.Table,
        *,
        schema: StructType | None = None,
        frame: Callable[[], DataFrame] | None = None,
    ) -> None:
        """Rows in the driver.

        Args:
            like: Rows of the same session and with the same limits, of which only these two are used.
            schema: Spark's types; unset: those of the frame.
            frame: Creates the frame; unset: it is created from the rows themselves.
        """
        self.session, self.limits = like.session, like.limits
        self._like, self._arrow, self._schema, self._make = like, arrow, schema, frame
        self._frame: DataFrame | None = None

    @property
    def count(self) -> int:
        return int(self._arrow.num_rows)

    @property
    def frame(self) -> DataFrame:
        if self._frame is None:
            make = self._make or (lambda: frame_of(self.session, self._arrow, self._schema))
            self._frame = make()
        return self._frame

    @property
    def schema(self) -> StructType:
        return self.frame.schema if self._schema is None else self._schema

    @property
    def columns(self) -> Sequence[str]:
        return tuple(self._arrow.column_names)

    @property
    def arrow(self) -> pa.Table:
        return self._arrow

    def derive(self, frame: DataFrame, count: int | None = None) -> Rows:
        return self._like.derive(frame, count)

    @contextmanager
    def kept(self, **_: Any) -> Iterator[Rows]:
        yield self

    def collected(self) -> Rows:
        return self

    def with_limits(self, limits: DriverLimits) -> Rows:
        return ArrowRows(self._like.with_limits(limits), self._arrow, schema=self._schema, frame=self._make)

    @property
    def bytes(self) -> int:
        return int(self._arrow.nbytes)

    def select(self, columns: Mapping[str, Expression]) -> Rows:
        arrow = pa.table({name: each.arrow(self._arrow) for name, each in columns.items()})
        return self._with(arrow, lambda: self._with_spark.select(columns).frame)

    def with_columns(self, columns: Mapping[str, Expression]) -> Rows:
        kept = {name: self._arrow[name] for name in self._arrow.column_names}
        arrow = pa.table(kept | {name: each.arrow(self._arrow) for name, each in columns.items()})
        return self._with(arrow, lambda: self._with_spark.with_columns(columns).frame)

    def where(self, condition: Expression, count: int | None = None) -> Rows:
        return self._with(
            self._arrow.filter(condition.arrow(self._arrow)), lambda: self.frame.where(condition.spark())
        )

    def drop(self, name: str) -> Rows:
        return self._with(self._arrow.drop_columns([name]), lambda: self.frame.drop(name))

    def count_where(self, conditions: Mapping[str, Expression]) -> Mapping[str, int]:
        return {name: pc.sum(each.arrow(self._arrow)).as_py() or 0 for name, each in conditions.items()}

    def count_by(self, name: str) -> Mapping[Any, int]:
        return {one["values"]: one["counts"] for one in self._arrow[name].value_counts().to_pylist()}

    def bounds(self, key: Sequence[str], table: str = "") -> Sequence[Column]:
        return bounds_in_driver(self._arrow, self.schema, key, table)

    def time_ranges(self, low: str, high: str) -> Sequence[tuple[int, int]]:
        ends = (self._arrow[name].cast(pa.int64()).to_pylist() for name in (low, high))
        return list(zip(*ends, strict=True))

    def latest_per_key(self, *, key: Sequence[str], order: Sequence[str], earliest: bool = False) -> Rows:
        try:
            self._refuse_types((*key, *order))
            positions = latest_in_driver.latest_per_key(self._arrow, key=key, order=order, earliest=earliest)
        except NotComparableError:
            return self._with_spark.latest_per_key(key=key, order=order, earliest=earliest)
        return self._with(self._arrow.take(positions))

    def keys_not_in(self, others: Sequence[Rows], *, key: Sequence[str], itself: Sequence[str]) -> Rows:
        try:
            self._refuse_types((*key, *itself))
            tables = [_arrow_of(each) for each in others]
            positions = latest_in_driver.keys_not_in(self._arrow, tables, key=key, itself=itself)
        except NotComparableError:
            return self._with_spark.keys_not_in(others, key=key, itself=itself)
        return self._with(self._arrow.take(positions))

    def compare(self, others: Mapping[str, Rows | None], *, key: Sequence[str], order: Sequence[str]) -> Rows:
        try:
            self._refuse_types((*key, *order))
            tables = {name: _arrow_of(each) for name, each in others.items() if each is not None}
            ranks = latest_in_driver.rank_against(self._arrow, [*tables.values()], key=key, order=order)
        except NotComparableError:
            return self._with_spark.compare(others, key=key, order=order)
        rows = self._arrow.take(ranks["row"]).append_column(ORDER, ranks["new"])
        nothing = pa.nulls(ranks.num_rows, pa.int64())
        for name in others:
            place = ranks[f"have{[*tables].index(name)}"] if name in tables else nothing
            rows = rows.append_column(name, place)

        def frame() -> DataFrame:
            places = [StructField(name, LongType()) for name in (ORDER, *others)]
            return frame_of(self.session, rows, StructType([*self.schema.fields, *places]))

        return self._with(rows, frame)

    def narrowed_to(self, keys: Rows, names: Sequence[str]) -> Rows:
        return self

    def compute(self, in_driver: Callable[[Rows], Rows], with_spark: Callable[[Rows], Rows]) -> Rows:
        try:
            return in_driver(self)
        except NotComparableError:
            return with_spark(self)

    def packed(self, by: Sequence[str] = ()) -> DataFrame:
        return self._with_spark.packed(by)

    @property
    def _with_spark(self) -> Rows:
        return self.derive(self.frame, self.count)

    def _with(self, arrow: pa.Table, frame: Callable[[], DataFrame] | None = None) -> ArrowRows:
        make = frame or (lambda: frame_of(self.session, arrow, self.schema))
        return ArrowRows(self._like, arrow, frame=make)

    def _refuse_types(self, names: Sequence[str]) -> None:
        if not latest_in_driver.is_plain(self._arrow.schema, names):
            raise NotComparableError(f"of {', '.join(names)} only Spark can compare all types")


def _arrow_of(rows: Rows) -> pa.Table:
    if rows.arrow is None:
        raise NotComparableError("rows to compare with are not in the driver")
    return rows.arrow
