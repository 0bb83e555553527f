"""The rows of a gold table that a record is part of: what they were before a micro-batch, and after it.

What a row was before is the version before the micro-batch that has read the record; other rows may have
changed it in the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

from common.declare import ChangeFeed, Gold, History, Upsert
from common.delta.checkpoint import delta_position_of
from common.sql.quoting import double_quoted
from orchestration.access.query.record_place import Place
from orchestration.access.query.shown_values import part
from orchestration.records.audit.table_log import TableCommit
from orchestration.records.trace.behind import RECORD
from orchestration.records.trace.gold_keys import AT, GoldKeys
from orchestration.records.trace.no_row import comes_later, why_no_row
from orchestration.records.trace.tables import Tables
from orchestration.records.trace.truncations import IS_ONE, Truncations, truncations_of

_MOST_BATCHES = 20
_MOST_READ = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table that gold tables read."""

    table: str
    version: int  # the version in which they were written
    sql: str | None  # a query that gives them; None where it is not known which rows of the table they are
    place: Place  # the record that they come from
    is_gone: bool = False  # whether they left the table in this version


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch of a gold table: its first and its last commit, of which most have one."""

    first: TableCommit
    last: TableCommit

    @property
    def before(self) -> int:
        """The version before it; -1 if it has created the table."""
        return self.first.version - 1


def read_by(tables: Tables, table: str, source: int, version: int) -> list[Batch]:
    """The micro-batches of a table that have read a version of one of its sources, in part or to its end."""
    found: list[Batch] = []
    for one in _batches(tables, table):
        end = delta_position_of(one.first.metadata.get("positions") or (), source)
        if end is None or end.version < version:
            continue
        if end.version > version or end.in_snapshot or end.index >= 0:
            found.append(one)
        if len(found) == _MOST_BATCHES or (end.version > version and not end.in_snapshot):
            break
    return found


def newest_batch(tables: Tables, table: str) -> Batch:
    """The newest micro-batch of a table that has one."""
    return _batches(tables, table)[-1]


def _batches(tables: Tables, table: str) -> list[Batch]:
    """All micro-batches of a table."""
    found: list[Batch] = []
    for one in tables.log(table).commits:
        if one.batch_id is None:
            continue
        if found and (one.query_id, one.batch_id) == (found[-1].last.query_id, found[-1].last.batch_id):
            found[-1] = Batch(found[-1].first, one)
        else:
            found.append(Batch(one, one))
    return found


@dataclass(frozen=True, slots=True)
class GoldChange:
    """What a micro-batch made of a gold row."""

    key: dict[str, Any]  # the columns that identify the row
    before: dict[str, Any] | None  # the row before it; None if there was none
    after: dict[str, Any] | None  # the row after it; None if there is none
    # What the record is to the row: ``overtaken`` within the micro-batch, ``older`` than what was there, or
    # gone and another one ``instead``; of an interval: ``ended`` or ``continued``; or it was ``truncated`` by
    # a later one. Empty: the row is of the record, or of a group.
    role: str = ""
    record: Place | None = None  # the other record; None without one

    @property
    def change(self) -> str:
        """``inserted``, ``changed``, ``deleted`` or ``unchanged``."""
        if self.before is None:
            return "inserted"
        if self.after is None:
            return "deleted"
        return "unchanged" if self.before == self.after else "changed"

    def document(self, *, has_values: bool) -> dict[str, Any]:
        """The change in a JSON document."""
        old, new = self.before, self.after
        return {
            "key": self.key,
            "change": self.change,
            "columns": [name for name in new or {} if old is not None and old.get(name) != (new or {})[name]],
            "role": self.role,
            "record": part(self.record),
            **({"before": old, "after": new} if has_values else {}),
        }


@dataclass
class GoldRows:
    """Finds the rows."""

    tables: Tables
    gold: Gold  # the declaration of the gold table
    source: Rows  # the record's rows in a table that it reads
    keys: GoldKeys  # which of its rows they belong to

    def found(self, batches: Sequence[Batch]) -> tuple[Batch, list[GoldChange]]:
        """The micro-batch that brought or changed the rows, and what it made of them; changed ones first.

        Of none that did, the last one that has read the record.

        Args:
            batches: The micro-batches that may have read the record.

        Raises:
            TableError: A version cannot be read, because its files are gone.
        """
        changes: list[GoldChange] = []
        for batch in batches:
            changes = self._changes(batch)
            if any(one.change != "unchanged" for one in changes):
                return batch, [self._truncated(one) for one in changes]
        if not changes and comes_later(self.gold) and (later := self._later(batches[-1])) is not None:
            return later, self._changes(later)
        return batches[-1], changes

    def why_none(self, batch: Batch) -> str:
        """Why there is no row after a micro-batch."""
        if self._truncations is not None and self._truncations.is_one():
            return IS_ONE
        if (truncation := self._truncation) is not None:
            return f"no row: {truncation} is a truncation, and came after it"
        deleter = self._deleter(batch)
        if deleter is None:
            return why_no_row(self.tables, self.gold, self.source.table, self.source.sql or "", self.keys)
        if deleter == self.source.place:
            return "no row: the record deletes its key, of which there was none"
        return f"no row: {deleter} has deleted its key"

    @cached_property
    def _truncations(self) -> Truncations | None:
        is_gone = self.source.is_gone or self.source.sql is None
        return None if is_gone else truncations_of(self.tables, self.gold, self.source.sql or "")

    @cached_property
    def _truncation(self) -> Place | None:
        """The truncation after the record; a gold table that has not come to it yet has the row still."""
        return None if self._truncations is None else self._truncations.after()

    def _truncated(self, one: GoldChange) -> GoldChange:
        """The change; of a row of the record that a truncation has taken out since, or ended, with that."""
        is_own = not one.role and (one.after is None or _named(one.after) == self.source.place)
        if not is_own or self._truncation is None:
            return one
        newest = self._at(newest_batch(self.tables, self.gold.table).last.version)
        still = self._by_row(self.keys.rows(newest)).get(tuple(one.key.values()), [])
        is_open = any(_named(row) == self.source.place and row.get("valid_to") is None for row in still)
        return one if is_open else replace(one, role="truncated", record=self._truncation)

    def following(self, batch: Batch, changes: Sequence[GoldChange]) -> Rows | None:
        """The rows that tables behind this one have read because of the record; None if there are none."""
        kept = [one for one in changes if one.role not in {"overtaken", "older"}]
        if not kept:
            return None
        versions = [batch.last.version] * any(one.after is not None for one in kept)
        versions += [batch.before] * any(one.after is None for one in kept)
        sql = " UNION ALL BY NAME ".join(self._rows_at(version, batch) for version in versions)
        return Rows(self.gold.table, batch.last.version, sql, self.source.place, self.source.is_gone)

    def _changes(self, batch: Batch) -> list[GoldChange]:
        before, after = (
            self._by_row(f"{self._rows_at(version, batch)} ORDER BY ALL LIMIT {_MOST_READ}")
            if version >= 0
            else {}
            for version in (batch.before, batch.last.version)
        )
        found = []
        for key in dict.fromkeys((*before, *after)):
            named = dict(zip(self.keys.row, key, strict=True))
            for old, new in _pairs(before.get(key, []), after.get(key, [])):
                found.append(GoldChange(named, old, new, *self._role(batch, old, new)))
        return sorted(found, key=lambda one: one.change == "unchanged")

    def _rows_at(self, version: int, batch: Batch) -> str:
        """A query for the rows at a version, of those that a micro-batch may have changed."""
        versions = [each for each in (batch.before, batch.last.version) if each >= 0]
        both = " UNION ALL BY NAME ".join(f"SELECT * FROM {self._at(each)}" for each in versions)
        return self.keys.joined(both).rows(self._at(version))

    def _at(self, version: int) -> str:
        return str(self.tables.source(self.gold.table, version))

    def _by_row(self, sql: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self.tables.rows(sql):
            found.setdefault(tuple(row[name] for name in self.keys.row), []).append(row)
        return found

    def _later(self, batch: Batch) -> Batch | None:
        """The first later micro-batch that has written the rows; a table that only grows is searched."""
        after = [
            one for one in _batches(self.tables, self.gold.table) if one.first.version > batch.last.version
        ]
        if not after or not self._is_there(after[-1]):
            return None
        return after[bisect_left(after, True, key=self._is_there)]

    def _is_there(self, batch: Batch) -> bool:
        return bool(self.tables.rows(f"{self.keys.rows(self._at(batch.last.version))} LIMIT 1"))

    def _role(
        self, batch: Batch, old: dict[str, Any] | None, new: dict[str, Any] | None
    ) -> tuple[str, Place | None]:
        """What the record is to a row, and the other record that the row is of."""
        if not isinstance(self.gold, (Upsert, ChangeFeed, History)):
            return "", None
        now, place = _named(new), self.source.place
        if new is None and not self.source.is_gone:
            now = self._deleter(batch)
        if now is None or now == place:
            return "", None
        if self.source.is_gone:
            return "instead", now
        if not isinstance(self.gold, History):
            return ("older" if _named(old) == now else "overtaken"), now
        return ("ended", None) if new is not None and new["valid_to"] in self._times else ("continued", now)

    @cached_property
    def _times(self) -> list[Any]:
        return [row[AT] for row in self.tables.rows(f"SELECT DISTINCT {AT} FROM ({self.keys.sql})")]

    def _deleter(self, batch: Batch) -> Place | None:
        """The record that had deleted the key by a micro-batch; None where none had, or it is not known."""
        if not isinstance(self.gold, (Upsert, ChangeFeed)) or not self.gold.side_tables:
            return None
        table = self.gold.deleted
        known = [
            one.version
            for one in self.tables.log(table, self.gold.table).commits
            if one.query_id == batch.last.query_id and (one.batch_id or 0) <= (batch.last.batch_id or 0)
        ]
        if not known:
            return None
        deleted = self.keys.rows(str(self.tables.source(table, known[-1])))
        found = self.tables.rows(f"SELECT {', '.join(map(double_quoted, RECORD))} FROM ({deleted}) LIMIT 1")
        return Place(*found[0].values()) if found else None


def _named(row: dict[str, Any] | None) -> Place | None:
    """The record that a row names."""
    return Place(*(row[name] for name in RECORD)) if row is not None and set(RECORD) <= row.keys() else None


def _pairs(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """The rows of one key before and after: equal ones first, the others in their order."""
    others = list(before)
    for row in list(after):
        if row in others:
            others.remove(row)
            after = [each for each in after if each is not row]
            yield row, row
    yield from zip_longest(others, after)
