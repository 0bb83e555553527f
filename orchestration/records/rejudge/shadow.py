"""The shadow of a silver table: what a rebuild fills beside the live tables, and where it is."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from common.config.paths import Layout, is_local
from common.declare import Silver

_SUFFIX = "__shadow"


@dataclass(frozen=True)
class ShadowLayout(Layout):
    """A pipeline's layout in which tables and checkpoint of one query are those of its shadow."""

    shadowed: frozenset[str] = frozenset()  # the tables of the query

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


def remove_shadow(layout: Layout, silver: Silver) -> bool:
    """Delete the tables and the checkpoint of a shadow; whether there was one. Shadows are on local disks."""
    shadow = shadow_of(layout, silver)
    found = False
    paths = [shadow.table_path(table) for table in (silver.table, *silver.side_tables)]
    for path in (*paths, shadow.checkpoint_path(silver.table)):
        if is_local(path) and Path(path).exists():
            shutil.rmtree(path)
            found = True
    return found


def lease_of(silver: Silver) -> str:
    """The name of the lease on the shadow."""
    return f"{silver.table}{_SUFFIX}"
