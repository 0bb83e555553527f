"""Where the shadow of a silver table is: its tables and its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, fields

from common.config.paths import Layout
from common.declare import Silver

_SUFFIX = "__shadow"


@dataclass(frozen=True)
class ShadowLayout(Layout):
    """The layout of a pipeline in which the tables and the checkpoint of one query are those of its shadow.

    Attributes:
        shadowed: The tables of the query.
    """

    shadowed: frozenset[str] = frozenset()

    def table_path(self, table: str) -> str:
        """Path or URI of a table; of a shadowed one, that of its shadow."""
        return Layout.table_path(self, table) + (_SUFFIX if table in self.shadowed else "")

    def checkpoint_path(self, query: str) -> str:
        """Path or URI of a query's checkpoint; of a shadowed one, that of its shadow."""
        return Layout.checkpoint_path(self, query) + (_SUFFIX if query in self.shadowed else "")


def shadow_of(layout: Layout, silver: Silver) -> ShadowLayout:
    """The layout with the shadow of a silver table."""
    known = {each.name: getattr(layout, each.name) for each in fields(layout)}
    return ShadowLayout(**known, shadowed=frozenset((silver.table, *silver.side_tables)))


def lease_of(silver: Silver) -> str:
    """The name of the lease on the shadow."""
    return f"{silver.table}{_SUFFIX}"
