"""The checks of one silver table as SQL for DuckDB: every offset in one place, witnesses, counts, values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.declare import Topic
from common.delta.log import LogReader
from common.sql.quoting import double_quoted, standard_text
from orchestration.records.audit.offset_places import NEVER
from orchestration.records.audit.table_log import TableLog
from orchestration.records.proof.checks import compared, heading, not_compared, stated
from orchestration.records.proof.given import Given
from orchestration.records.proof.value_columns import READ_OTHERWISE, ValueColumns, of_silver
from silver.read.column_names import COORDINATES, ELEMENT_COLUMN, INGESTED_AT, KAFKA_TIMESTAMP
from silver.read.unknown_fields import RESCUED

_AT = 'topic, partition, "offset"'
_AT_IN_SILVER = '_kafka_topic AS topic, _kafka_partition AS partition, _kafka_offset AS "offset"'
_SAME_PLACE = '{0}.topic = {1}.topic AND {0}.partition = {1}.partition AND {0}."offset" = {1}."offset"'
_FIRST = 'shown_places(min({topic: topic, partition: partition, "offset": "offset"}, 5)'
_FIRST_OTHERS = f"{_FIRST} FILTER (NOT is_same))"
_ALONE = "count(*) FILTER (is_alike AND NOT has_witness)"
_KEY, _WHERE, _WHEN = "k", "where", "at"
"""Columns of a user have numbers in the statements, as their names may be any: ``k0``, ``k1`` … are those of
the key, ``at`` is the event time, ``c0``, ``c1`` … are all of them."""
_OWN = {*COORDINATES, KAFKA_TIMESTAMP, INGESTED_AT, ELEMENT_COLUMN, RESCUED}
_TABLES = ("bronze", "silver", "late", "quarantine", "dropped", "waiting")


@dataclass(frozen=True)
class SilverChecks:
    """The checks of one silver table."""

    given: Given  # what the logs say
    # The name of bronze's view; ``silver``, ``late``, ``quarantine``, ``erased`` likewise, None for a table
    # that there is not.
    bronze: str
    silver: str | None
    late: str | None
    quarantine: str | None
    erased: str | None
    waiting: tuple[str, ...]  # SQL of the paths of bronze's files that silver has not read
    columns_of: dict[str, str]  # the columns and types of silver's view

    @property
    def about(self) -> str:
        """The table's name."""
        return self.given.silver.table

    def temporary(self, what: str) -> str:
        """The quoted name of a table that the script makes."""
        return double_quoted(f"{what} of {self.about}")

    def statements(self) -> Iterator[str]:
        """The statements, in order."""
        given = self.given
        yield heading(f"{self.about}: every offset of {given.silver.read_text} is in exactly one place")
        for fault in given.faults:
            yield stated(self.about, "log", "different", "every commit", fault)
        for log in given.pins.tables:
            if log.version != (newest := LogReader(log.path).latest_version()):
                why = f"version {log.version} of {newest} was compared: a micro-batch is unfinished"
                yield not_compared(log.table, "newest version", why)
        if given.why_no_balance:
            yield not_compared(self.about, "offsets", given.why_no_balance)
            return
        yield self._given_offsets()
        yield self._places()
        yield from self._offsets()
        yield from self._rest()
        yield self._counted()
        yield from self._left()
        yield from self._late()
        yield from self._values()
        yield from self._raw_bytes()

    def _given_offsets(self) -> str:
        rows = ",\n  ".join(
            f"({standard_text(topic)}, {partition}, {one.first}, {min(one.processed_end, NEVER)}, {one.end}, "
            f"{one.expired_end})"
            for (topic, partition), one in self.given.ranges.items()
        )
        return f"""\
-- As bronze's commits say: the first offset, the end of what silver has processed, the end of what bronze has
-- read, and the end of what retention has deleted (ends are exclusive).
CREATE TEMP TABLE {self.temporary("given offsets")} (
  topic VARCHAR, partition INTEGER, first BIGINT, processed_end BIGINT, "end" BIGINT, expired_end BIGINT);
INSERT INTO {self.temporary("given offsets")} VALUES
  {rows or "(NULL, NULL, NULL, NULL, NULL, NULL)"};"""

    def _places(self) -> str:
        sources = [self._source(self.bronze, "bronze")]
        if self.silver is not None:
            sources.append(self._source(self._of_records(), "silver", _AT_IN_SILVER))
        if self.late is not None:
            sources.append(self._source(self.late, "late", _AT_IN_SILVER))
        if self.quarantine is not None:
            sources.append(
                self._source(f"{self.quarantine} WHERE verdict IS DISTINCT FROM 'drop'", "quarantine")
            )
            sources.append(self._source(f"{self.quarantine} WHERE verdict = 'drop'", "dropped"))
        if self.waiting:
            sources.append(self._source(f"read_parquet([{', '.join(self.waiting)}])", "waiting"))
        every = "\n    UNION ALL ".join(sources)
        sums = ", ".join(f"sum(in_{name})::INTEGER AS in_{name}" for name in _TABLES)
        merges = self.given.silver.late == "merge" or bool(self.given.pins.silver.steps("late"))
        only_late = "in_late > 0 AND in_silver = 0" if merges else "in_late > 0"
        erased = f"""
    WHEN EXISTS (FROM {self.erased} e WHERE e.bronze = {standard_text(self.given.topic.table)}
      AND {_SAME_PLACE.format("e", "f")}) THEN 'erased, and here again'""" if self.erased else ""  # fmt: skip
        return f"""\
-- One row per coordinate: in how many rows of which table it is, and the one place that follows.
CREATE TEMP TABLE {self.temporary("places")} AS
SELECT {_AT}, first, expired_end, in_bronze > 0 AS is_in_bronze, CASE
    WHEN first IS NULL OR "offset" < first OR "offset" >= "end" THEN 'outside'
    WHEN in_bronze > 1 OR in_silver > 1 OR in_late > 1 OR in_quarantine + in_dropped > 1
      OR (in_silver > 0)::INTEGER + ({only_late})::INTEGER + (in_quarantine + in_dropped > 0)::INTEGER > 1
      THEN 'twice'{erased}
    WHEN in_bronze = 0 AND "offset" >= expired_end THEN 'not in bronze'
    WHEN in_silver > 0 THEN 'silver' WHEN in_late > 0 THEN 'late'
    WHEN in_quarantine > 0 THEN 'quarantine' WHEN in_dropped > 0 THEN 'dropped'
    WHEN in_waiting > 0 OR "offset" >= processed_end THEN 'waiting'
    ELSE 'only in bronze' END AS place
FROM (
  SELECT {_AT}, {sums}
  FROM (
    {every})
  GROUP BY ALL) AS f
LEFT JOIN {self.temporary("given offsets")} USING (topic, partition);"""

    def _source(self, rows: str, mine: str, at: str = _AT) -> str:
        marks = ", ".join(f"{int(name == mine)} AS in_{name}" for name in _TABLES)
        return f"SELECT {at}, {marks} FROM {rows}"  # names of our own

    def _offsets(self) -> Iterator[str]:
        """One check per partition, and one of what is outside of all of them."""
        may_have_gaps = isinstance(self.given.topic, Topic) and self.given.topic.may_have_gaps
        yield self._balance()
        yield self._gaps()
        is_whole = f'"end" - first {">=" if may_have_gaps else "="} in_place + expired + erased + lost'
        gap = f"""(SELECT string_agg(
      x.topic || '/' || x.partition || '/' || x."offset" || ' (' || x.offsets || ' missing)', ', ')
    FROM {self.temporary("gaps")} AS x WHERE x.topic = b.topic AND x.partition = b.partition)"""
        yield compared(
            about=self.about,
            check="'offsets of ' || topic || '/' || partition",
            holds=f"wrong = 0 AND {is_whole}",
            expected="'each of ' || (\"end\" - first) || ' offsets from ' || first || ' in one place'"
            f" || {standard_text(f', of {_at(self.given.pins.bronze)}')}",
            found="texts || CASE WHEN expired > 0 THEN ', ' || expired || ' expired' ELSE '' END"
            " || CASE WHEN erased > 0 THEN ', ' || erased || ' erased' ELSE '' END"
            " || CASE WHEN lost > 0 THEN ', ' || lost || ' accepted as lost' ELSE '' END",
            shown=f"concat_ws(', ', shown_places(shown), CASE WHEN NOT ({is_whole}) THEN {gap} END)",
            rows=f"FROM {self.temporary('balance')} AS b ORDER BY topic, partition",
        )
        yield compared(
            about=self.about,
            check="'offsets that no commit has read'",
            holds="count(*) = 0",
            expected="'none'",
            found="count(*)::VARCHAR",
            shown=f"{_FIRST})",
            rows=f"FROM {self.temporary('places')} WHERE place = 'outside'",
        )

    def _balance(self) -> str:
        """The number of offsets per partition and place."""
        wrong = "place IN ('twice', 'not in bronze', 'erased, and here again')"
        return f"""\
-- Offsets in no row: expired below expired_end, erased, accepted as lost; any other one is a gap.
CREATE TEMP TABLE {self.temporary("balance")} AS
SELECT g.*, coalesce(in_place, 0) AS in_place, coalesce(wrong, 0) AS wrong, shown,
  CASE WHEN expired_end > first THEN expired_end - first - coalesce(held, 0) ELSE 0 END AS expired,
  {self._erased()} AS erased, {self._lost()} AS lost, coalesce(texts, '') AS texts
FROM {self.temporary("given offsets")} AS g
LEFT JOIN (
  SELECT topic, partition, sum(n)::BIGINT AS in_place, sum(n) FILTER ({wrong})::BIGINT AS wrong,
    sum(held)::BIGINT AS held, string_agg(n || ' ' || place, ', ' ORDER BY n DESC, place) AS texts,
    flatten(list(shown) FILTER ({wrong})) AS shown
  FROM (
    SELECT topic, partition, place, count(*) AS n, count(*) FILTER ("offset" < expired_end) AS held,
      min({{topic: topic, partition: partition, "offset": "offset"}}, 5) FILTER ({wrong}) AS shown
    FROM {self.temporary("places")} WHERE place <> 'outside' GROUP BY ALL)
  GROUP BY ALL) AS p USING (topic, partition)
WHERE g.topic IS NOT NULL;
"""

    def _gaps(self) -> str:
        """The ranges of missing offsets, of partitions that have any."""
        return f"""\
CREATE TEMP TABLE {self.temporary("gaps")} AS
SELECT topic, partition, "offset" + 1 AS "offset", following - "offset" - 1 AS offsets
FROM (
  SELECT topic, partition, "offset",
    lead("offset") OVER (PARTITION BY topic, partition ORDER BY "offset") AS following
  FROM (
    SELECT {_AT} FROM {self.temporary("places")} WHERE place <> 'outside'
    UNION ALL SELECT topic, partition, greatest(first, expired_end) - 1 FROM {self.temporary("balance")}
    UNION ALL SELECT topic, partition, "end" FROM {self.temporary("balance")})
  WHERE (topic, partition) IN (
    SELECT (topic, partition) FROM {self.temporary("balance")}
    WHERE "end" - first <> in_place + expired + erased + lost))
WHERE following > "offset" + 1;
"""

    def _erased(self) -> str:
        if self.erased is None:
            return "0"
        return f"""(SELECT count(*) FROM (SELECT DISTINCT {_AT} FROM {self.erased} AS e
    WHERE e.bronze = {standard_text(self.given.topic.table)}
      AND e.topic = g.topic AND e.partition = g.partition
      AND e."offset" >= greatest(g.first, g.expired_end) AND e."offset" < g."end"
      AND NOT EXISTS (FROM {self.temporary("places")} AS q WHERE {_SAME_PLACE.format("q", "e")})))"""

    def _lost(self) -> str:
        parts = [
            f"CASE WHEN topic = {standard_text(one.topic)} AND partition = {one.partition} THEN "
            f'greatest(0, least("end", {one.last_offset + 1}) '
            f"- greatest(first, expired_end, {one.first_offset})) ELSE 0 END"
            for one in self.given.lost
        ]
        return " + ".join(parts) or "0"

    def _rest(self) -> Iterator[str]:
        """What is only in bronze: tombstones, other tables' records, duplicates with their witness."""
        silver, key = self.given.silver, self.given.silver.event_key
        values = self._key_and_conditions(key)
        counts_tombstones = silver.tombstones == "count"
        rest = f"""(SELECT b.topic, b.partition, b."offset", b.kafka_timestamp AS "timestamp", b.ingested_at,
      b.value
    FROM {self.bronze} AS b
    JOIN {self.temporary("places")} AS p ON {_SAME_PLACE.format("b", "p")} AND p.place = 'only in bronze')"""
        title = f"CREATE TEMP TABLE {self.temporary('rest')} AS"
        tombstone = "WHEN value IS NULL THEN 'tombstones' " if counts_tombstones else "WHEN false THEN '' "
        if values.why_not:
            yield f"{title}\nSELECT {_AT}, CASE {tombstone}ELSE 'others' END AS kind\nFROM {rest};"
            why = "; ".join(dict.fromkeys(values.why_not.values()))
            yield not_compared(self.about, "witness of each duplicate", why)
            return
        conditions = [text for name, text in values.texts.items() if name.startswith(_WHERE)]
        of_key = {f"{_KEY}{number}": name for number, name in enumerate(key)}
        of_key |= {_WHEN: self.given.silver.event_time} if _WHEN in values.texts else {}
        keys = "".join(f", {self._read_again(values.texts[at], name)} AS {at}" for at, name in of_key.items())
        own = " AND ".join(f"coalesce(try({text}), false)" for text in conditions)
        is_sure = values.is_read_alike(name for name in values.texts if name.startswith(_WHERE))
        other = f"WHEN NOT ({own}) AND {is_sure} THEN 'other' " if own else ""
        yield f"""\
-- What is only in bronze, and the key of each such record, read from its bytes.
{title}
SELECT {_AT}, ingested_at AS read_at, "timestamp" AS sent_at,
  {values.is_read_alike(values.texts)} AS is_alike,
  CASE {tombstone}{other}ELSE 'duplicates' END AS kind{keys}
FROM ({values.source(rest)});"""
        yield self._witnesses(key, is_newest=_WHEN in values.texts)

    def _key_and_conditions(self, key: Sequence[str]) -> ValueColumns:
        """The expressions of the key's columns, and the conditions by which a record is the table's own."""
        silver, values = self.given.silver, ValueColumns(self.given.silver)
        values.add_key(key)
        ordered = (silver.event_time,) if silver.keep == "newest" else ()
        if why := self._lacks([*key, *ordered]):
            values.why_not[_KEY] = why
        declared = () if silver.where is None else (silver.where,)
        for number, condition in enumerate(dict.fromkeys((*declared, *self.given.past_conditions))):
            values.add(f"{_WHERE}{number}", condition)
        if silver.keep == "newest" and not self.given.values.why and isinstance(silver.columns, Mapping):
            values.add(_WHEN, silver.columns[silver.event_time])
        return values

    def _witnesses(self, key: Sequence[str], *, is_newest: bool) -> str:
        """Of each duplicate; where the newest row of a key is kept, one that is not older."""
        also, same = "", ""
        if is_newest:
            also = (
                f", {double_quoted(self.given.silver.event_time)} AS {_WHEN}, _kafka_timestamp AS sent_at, "
            )
            also += _AT_IN_SILVER
            ordered = (_WHEN, "sent_at", "topic", "partition", '"offset"')
            mine, theirs = (", ".join(f"{rows}.{name}" for name in ordered) for rows in ("s", "r"))
            same = f" AND coalesce(row({mine}) >= row({theirs}), true)"
        has = self._has_key(key, "r", also, same)
        return compared(
            about=self.about,
            check="'witness of each duplicate'",
            holds="count(*) = count(*) FILTER (is_alike AND has_witness)",
            expected=f"'a row of {self.about} with the key of each of ' || count(*) || ' duplicates'",
            found="count(*) FILTER (is_alike AND has_witness) || ' have one'",
            shown=f"{_FIRST} FILTER (is_alike AND NOT has_witness))",
            rows=f"""FROM (
  SELECT r.*, {has} AS has_witness FROM {self.temporary("rest")} AS r WHERE kind = 'duplicates')""",
            otherwise=f"""CASE WHEN {_ALONE} = 0
    THEN 'not compared: ' || count(*) FILTER (NOT is_alike) || ' of ' || count(*) || ': {READ_OTHERWISE}'
    ELSE {self._unless_erased(key)} END""",
        )

    def _unless_erased(self, key: Sequence[str]) -> str:
        """The verdict on duplicates without a witness: each of their keys needs an erased record.

        An erasure takes the copies that bronze has with it, so what was read before has no excuse.
        """
        if self.erased is None:
            return "'different'"
        keys = ", ".join(f"{_KEY}{number}" for number in range(len(key)))
        ours = f"FROM {self.erased} AS e WHERE e.bronze = {standard_text(self.given.topic.table)}"
        return f"""CASE WHEN count(DISTINCT row({keys})) FILTER (is_alike AND NOT has_witness) <= (
    SELECT count(*) FROM (SELECT DISTINCT {_AT} {ours}))
      AND min(read_at) FILTER (is_alike AND NOT has_witness) > (SELECT min(erased_at) {ours})
    THEN 'not compared: those without one may be copies of erased records' ELSE 'different' END"""

    def _counted(self) -> str:
        """The rows in each place against what the micro-batches counted."""
        counts = self.given.counted
        if counts is None:
            return not_compared(self.about, "counts of the micro-batches", self.given.why_uncounted)
        expected = {
            "silver": counts["accepted"] + counts["merged"],
            "late": counts["late"] - counts["merged"],
            "quarantine": counts["quarantined"],
            "dropped": counts["dropped"],
            "only in bronze": counts["tombstones"] + counts["duplicates"] + counts["other"],
        }
        if self.given.silver.late != "merge" and not counts["merged"]:
            expected["late"] = counts["late"]
        listed = ", ".join(f"({standard_text(name)}, {number})" for name, number in expected.items())
        more = ""
        if self.given.silver.tombstones == "count" and not self.given.silver.where:
            rows = f"{self.temporary('rest')} WHERE kind = 'tombstones'"
            check = "counts of the micro-batches: tombstones"
            more = "\n" + _so_many(self.about, check, rows, counts["tombstones"])
        return f"""\
-- The counts in the metadata of the micro-batches' commits, added up.
{compared(
    about=self.about,
    check="'counts of the micro-batches: ' || name",
    holds="counted = found",
    expected="counted::VARCHAR",
    found="found::VARCHAR",
    shown="''",
    rows=f'''FROM (VALUES {listed}) AS c(name, counted)
LEFT JOIN (SELECT place AS name, count(*) AS n FROM {self.temporary("places")} GROUP BY ALL) USING (name)
CROSS JOIN LATERAL (SELECT coalesce(n, 0) AS found)''',
)}{more}"""  # fmt: skip

    def _left(self) -> Iterator[str]:
        """The rows of each table against what the engine's commits have left there, whatever moved them."""
        own = None if self.silver is None else self._of_records()
        check = "rows that the commits have left"
        for log, rows in zip(self.given.pins.tables[1:], (own, self.quarantine, self.late), strict=True):
            if rows is not None and (left := self.given.left[log.table]) is not None:
                yield _so_many(log.table, check, rows, left, f"rows of {_at(log)}")
            elif rows is not None:
                why = "the oldest commits are gone from the log, or files have no number of rows"
                yield not_compared(log.table, check, why)
        if self.given.silver.storage.foreign is None or self.silver is None:
            return
        check, appended = "rows of other programs", self.given.appended_by_others
        if appended is None:
            yield not_compared(self.about, check, "the log does not say how many")
        else:
            yield _so_many(self.about, check, f"{self.silver} WHERE {COORDINATES[0]} IS NULL", appended)

    def _of_records(self) -> str:
        """Silver's rows that are made of records: those of other programs, as declared, have no place."""
        others = self.given.silver.storage.foreign is not None
        return f"{self.silver} WHERE {COORDINATES[0]} IS NOT NULL" if others else str(self.silver)

    def _late(self) -> Iterator[str]:
        """A late row that was not merged has its key in silver."""
        if self.late is None or self.given.silver.late != "merge":
            return
        key = self.given.silver.event_key
        if why := self._lacks(key):
            yield not_compared(self.about, "key of each late row that was not merged", why)
            return
        has = self._has_key(key, "l")
        yield compared(
            about=self.about,
            check="'key of each late row that was not merged'",
            holds="count(*) = count(*) FILTER (has_witness)",
            expected=f"'a row of {self.about} with the key of each of ' || count(*) || ' late rows'",
            found="count(*) FILTER (has_witness) || ' have one'",
            shown=f"{_FIRST} FILTER (NOT has_witness))",
            rows=f"""FROM (
  SELECT p.*, {has} AS has_witness
  FROM (SELECT {_numbered(key)}, {_AT_IN_SILVER} FROM {self.late}) AS l
  JOIN {self.temporary("places")} AS p ON {_SAME_PLACE.format("p", "l")} AND p.place = 'late')""",
        )

    def _has_key(self, key: Sequence[str], rows: str, columns: str = "", condition: str = "") -> str:
        """The condition that silver has the key of a row of ``rows``, an alias."""
        if self.silver is None:
            return "false"
        same = " AND ".join(f"s.{_KEY}{n} = {rows}.{_KEY}{n}" for n in range(len(key)))
        mine = f"SELECT {_numbered(key)}{columns} FROM {self.silver}"
        return f"EXISTS (FROM ({mine}) AS s WHERE {same}{condition})"  # names quoted or our own

    def _values(self) -> Iterator[str]:
        """Silver's columns computed again from bronze's bytes."""
        if self.silver is None:
            return
        allowed = self.given.values
        if allowed.why:
            which = "values" if not allowed.begins else f"values of records before {allowed.text}"
            yield not_compared(self.about, which, allowed.why)
        if not allowed.are_any:
            return
        values = of_silver(self.given.silver)
        there = {name.lower() for name in self.columns_of}
        names = [name for name in values.texts if name.lower() in there]
        for why in dict.fromkeys(values.why_not.values()):
            same_why = [name for name, text in values.why_not.items() if text == why]
            yield not_compared(self.about, f"values of {', '.join(same_why)}", why)
        if values.texts and (others := self._undeclared(values)):
            yield not_compared(
                self.about, f"values of {', '.join(others)}", "the declaration has no such column"
            )
        if not names:
            if not values.why_not:
                yield not_compared(self.about, "values", "a function makes the columns")
            return
        for title, table in (("silver", self.silver), ("late rows", self.late)):
            if table is not None:
                yield self._compared_values(title, table, values, names)

    def _compared_values(self, title: str, table: str, values: ValueColumns, names: Sequence[str]) -> str:
        """The rows of one table: of a row only a column that DuckDB may read otherwise is excused."""
        allowed = self.given.values
        # Of each column: 0 where it is what the bytes give, 2 where it is not, 1 where DuckDB cannot tell.
        read = ",\n      ".join(
            f"CASE WHEN c{n} IS NOT DISTINCT FROM {self._read_again(values.texts[name], name)} THEN 0 "
            f"WHEN {values.is_read_alike([name])} THEN 2 ELSE 1 END AS d{n}"
            for n, name in enumerate(names)
        )
        worst = f"greatest({', '.join(f'd{n}' for n in range(len(names)))})"
        unread = ", ".join(
            f"CASE WHEN count(*) FILTER (d{n} = 1) > 0 THEN {standard_text(name)} END"
            for n, name in enumerate(names)
        )
        differs = standard_text(f"not compared: {allowed.excuse}" if allowed.excuse else "different")
        own = ", ".join(f"s.{double_quoted(name)} AS c{n}" for n, name in enumerate(names))
        rows = f"""(
    SELECT b.topic, b.partition, b."offset", b.kafka_timestamp AS "timestamp", b.value,
      s._kafka_timestamp AS own_time, {own}
    FROM {self.bronze} AS b
    JOIN {table} AS s
      ON b.topic = s._kafka_topic AND b.partition = s._kafka_partition AND b."offset" = s._kafka_offset
    WHERE {allowed.condition("b.topic", "b.partition", 'b."offset"')})"""
        return compared(
            about=self.about,
            check=standard_text(f"values of {title}: {', '.join(names)}"),
            holds="count(*) = count(*) FILTER (worst = 0)",
            expected="'the values of ' || count(*) || ' records in bronze'",
            found="count(*) FILTER (worst = 0) || ' are the same'",
            shown=f"{_FIRST} FILTER (worst = 2))",
            rows=f"""FROM (
  SELECT *, CASE WHEN own_time IS DISTINCT FROM "timestamp" THEN 2 ELSE {worst} END AS worst
  FROM (
    SELECT {_AT}, "timestamp", own_time,
      {read}
    FROM ({values.source(rows)})))""",
            otherwise=f"""CASE WHEN count(*) FILTER (worst = 2) > 0 THEN {differs}
    ELSE 'not compared: ' || count(*) FILTER (worst = 1) || ' of ' || count(*) || ' records, in '
      || concat_ws(', ', {unread}) || ': {READ_OTHERWISE}' END""",
        )

    def _read_again(self, text: str, name: str) -> str:
        """A column computed from a value, null where that fails."""
        is_field = re.fullmatch(r'"field \d+"', text) is not None
        found = text if is_field else f"try({text})"
        kinds = {other.lower(): kind for other, kind in self.columns_of.items()}
        return f"try_cast({found} AS {kinds[name.lower()]})" if name.lower() in kinds else found

    def _lacks(self, key: Sequence[str]) -> str:
        """Why rows of the table cannot be found by a key, in words; empty where they can."""
        there = {name.lower() for name in self.columns_of}
        lacking = [name for name in key if self.silver is not None and name.lower() not in there]
        return f"the table has no column {', '.join(lacking)}, which the declaration has" if lacking else ""

    def _undeclared(self, values: ValueColumns) -> list[str]:
        """The columns of the table that are neither declared nor the engine's."""
        known = {name.lower() for name in (*values.texts, *values.why_not)} | _OWN
        return [name for name in self.columns_of if name.lower() not in known]

    def _raw_bytes(self) -> Iterator[str]:
        """Key, value, headers and time of quarantined records against bronze's."""
        if self.quarantine is None:
            return
        yield compared(
            about=self.given.silver.quarantine,
            check="'bytes of quarantine'",
            holds="count(*) = count(*) FILTER (is_same)",
            expected="'key, value and headers of ' || count(*) || ' records in bronze'",
            found="count(*) FILTER (is_same) || ' are the same'",
            shown=_FIRST_OTHERS,
            rows=f"""FROM (
  SELECT b.topic, b.partition, b."offset", q.kafka_timestamp IS NOT DISTINCT FROM b.kafka_timestamp
    AND q.key IS NOT DISTINCT FROM b.key AND q.value IS NOT DISTINCT FROM b.value
    AND q.headers IS NOT DISTINCT FROM b.headers AS is_same
  FROM {self.quarantine} AS q JOIN {self.bronze} AS b ON {_SAME_PLACE.format("q", "b")}
  WHERE q.verdict IS DISTINCT FROM 'drop')""",
        )


def _at(log: TableLog) -> str:
    """A table and the version that is compared, as the script prints them."""
    return f"{log.table}@{log.version} of {LogReader(log.path).latest_version()}"


def _so_many(about: str, check: str, rows: str, number: int, what: str = "rows") -> str:
    """The check that ``rows``, SQL after FROM, are as many as a number in the log."""
    return compared(
        about=about,
        check=f"'{check}'",
        holds=f"count(*) = {number}",
        expected=f"'{number}'",
        found=f"count(*) || {standard_text(f' {what}')}",
        shown="''",
        rows=f"FROM {rows}",  # names quoted or our own
    )


def _numbered(key: Sequence[str]) -> str:
    """The columns of a key by their numbers."""
    return ", ".join(f"{double_quoted(name)} AS {_KEY}{number}" for number, name in enumerate(key))
