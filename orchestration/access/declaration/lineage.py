"""Which table reads which, and its problems: duplicate tables, reads of the wrong layer, and cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from common.config.paths import all_tables
from common.declare import (
    Aggregate,
    Bronze,
    ChangeFeed,
    Custom,
    DeltaTable,
    Gold,
    Join,
    Pipeline,
    Publish,
    Silver,
    Table,
    Upsert,
    View,
)
from common.declare.declared import is_outside, source_of
from common.errors import Fault, Problem, nearest

Reader = Silver | Gold | Publish

_READS = {"silver": "bronze", "gold": "silver"}


def lineage_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Problems of the graph of tables."""
    yield from _declared_twice(pipeline)
    in_cycle: set[str] = set()
    for cycle in _cycles(pipeline):
        in_cycle.update(cycle)
        shown = " -> ".join([*cycle, cycle[0]])
        layer = cycle[0].partition(".")[0]
        text = f"reads in a cycle: {shown}" if len(cycle) > 1 else "reads itself"
        reader = next(table for table in readers(pipeline) if table.table == cycle[0])
        instead = f"let one of its tables read a {_READS[layer]} table"
        yield Problem(cycle[0], Fault("MED-1302", f"{text}; {instead}"), source_of(reader))
    for reader in readers(pipeline):
        if reader.table in in_cycle:
            continue
        faults_of = (_read_fault, _join_fault, _custom_fault)
        for fault in (fault_of(reader, pipeline) for fault_of in faults_of):
            if fault is not None:
                yield Problem(reader.table, fault, source_of(reader))


def readers(pipeline: Pipeline) -> tuple[Reader, ...]:
    """The declarations that read a table of the pipeline: silver and gold tables, and publications."""
    return (*pipeline.silver, *pipeline.gold, *pipeline.publish)


def readers_of(pipeline: Pipeline, silver: Silver) -> list[Silver]:
    """The silver tables that read a bronze table of this one, in the order of their declaration."""
    return [one for one in pipeline.silver if _is_reader(one, [silver])]


def connected(pipeline: Pipeline, silver: Silver) -> list[Silver]:
    """The silver tables that read a bronze table of this one, or of one of these; in order of declaration.

    No other silver table has a row of a record of theirs.
    """
    found = readers_of(pipeline, silver)
    while (more := [one for one in pipeline.silver if _is_reader(one, found)]) != found:
        found = more
    return found


def _is_reader(silver: Silver, others: Iterable[Silver]) -> bool:
    return any(not set(silver.sources).isdisjoint(one.sources) for one in others)


def read_by(readers: Iterable[Silver]) -> tuple[str, ...]:
    """The bronze tables that some silver tables read, each once."""
    return tuple(dict.fromkeys(source for one in readers for source in one.sources))


def sources(reader: Reader) -> tuple[str, ...]:
    """The tables of the pipeline that a table or publication reads."""
    tables = (reader.reads,) if isinstance(reader, Publish) else reader.sources
    return tuple(table for table in tables if not is_outside(table))


def others_read(declared: Table) -> tuple[str, ...]:
    """The Delta tables of other programs that a table reads, by their paths or their names in catalogs."""
    if isinstance(declared, Silver):
        tables: tuple[str, ...] = tuple(lookup.table for lookup in declared.lookups)
    elif isinstance(declared, DeltaTable):
        tables = (declared.folder,)
    else:
        tables = () if isinstance(declared, Bronze) else declared.sources
    return tuple(table for table in tables if is_outside(table))


def read_tables(reader: Reader) -> tuple[str, ...]:
    """As ``sources``, and then the Delta tables of other programs, which a view names by their paths."""
    return reader.sources if isinstance(reader, View) else sources(reader)


def written_by(table: Table) -> tuple[str, ...]:
    """The tables that a table's query writes: the table and its side tables."""
    return (table.table, *table.side_tables)


def in_data_order(tables: Sequence[Gold]) -> tuple[Gold, ...]:
    """Gold tables, each after those that it reads, otherwise in declared order; cycles stay as they are."""
    waiting, placed = list(tables), list[Gold]()
    while waiting:
        names = {name for table in waiting for name in written_by(table)}
        ready = next((table for table in waiting if not names.intersection(sources(table))), waiting[0])
        waiting.remove(ready)
        placed.append(ready)
    return tuple(placed)


def _declared_twice(pipeline: Pipeline) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for declared in (*pipeline.tables, *pipeline.publish):
        source = source_of(declared)
        for table in (declared.table, *getattr(declared, "side_tables", ())):
            if table in first:
                text = Fault(
                    "MED-1303",
                    f"is declared twice, first at {first[table]}; one table has one writer: rename one",
                )
                yield Problem(table, text, source)
            first.setdefault(table, source)


def _read_fault(reader: Reader, pipeline: Pipeline) -> str | None:  # one return per fault
    if isinstance(reader, Publish):
        return _publish_fault(reader, pipeline)
    if isinstance(reader, View):
        return _view_fault(reader, pipeline)
    if isinstance(reader, Silver):
        faults = (_table_fault(reader, source, pipeline) for source in reader.sources)
        return next((fault for fault in faults if fault is not None), _shared_topic(reader, pipeline))
    return _table_fault(reader, reader.reads, pipeline)


def _table_fault(reader: Silver | Gold, reads: str, pipeline: Pipeline) -> str | None:
    """What is wrong with one table that a table reads; None if nothing is."""
    wanted = _READS[reader.LAYER]
    right = [table.table for table in pipeline.tables if table.table.startswith(f"{wanted}.")]
    if reads in right:
        return None
    known = {table.table: table for table in pipeline.tables}
    found = known.get(reads)
    if isinstance(reader, Join | Aggregate) and isinstance(found, Upsert | ChangeFeed):
        if reader.mode != "recompute":
            return Fault("MED-1305", f'reads {reads!r}, whose rows change; take mode="recompute"')
        return None if found.storage.change_feed else _feedless("reads", reads)
    advice = nearest(reads, right) if right else f"the pipeline declares no {wanted} table yet"
    if reads in known:
        wrong = f"reads {reads!r}, but {_kind(reader)} reads a {wanted} table"
        if isinstance(reader, Join | Aggregate):
            wrong += ', with mode="recompute" also a gold Upsert or ChangeFeed, a View any gold table'
        elif isinstance(found, Gold):
            wrong += " (a View reads any gold table)"
        return Fault("MED-1301", f"{wrong}; {advice}")
    return Fault("MED-1301", f"reads {reads!r}, which the pipeline does not declare; {advice}")


def _shared_topic(silver: Silver, pipeline: Pipeline) -> str | None:
    """What is wrong with the topics of several bronze tables: a record has its place by topic and offset."""
    if len(silver.sources) == 1:
        return None
    seen: dict[str, str] = {}
    for topic in (one for one in pipeline.topics if one.table in silver.sources):
        if topic.pattern is not None:
            return Fault(
                "MED-1301",
                f"reads {silver.read_text}, and {topic.table} has a pattern of topics, which may match one "
                "of another table: name its topics",
            )
        for name in topic.topic_names:
            if name in seen:
                return Fault(
                    "MED-1301",
                    f"reads {silver.read_text}, and both {seen[name]} and {topic.table} read the topic "
                    f"{name}: its records would be rows twice; read the topic in one of them",
                )
            seen[name] = topic.table
    return None


def _kind(reader: Silver | Gold) -> str:
    """The kind of a table, as the subject of a sentence."""
    name = type(reader).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _publish_fault(publish: Publish, pipeline: Pipeline) -> str | None:
    right = all_tables(pipeline)
    if publish.reads in right:
        return None
    return Fault(
        "MED-1301",
        f"reads {publish.reads!r}, which is no table of the pipeline; {nearest(publish.reads, right)}",
    )


def _view_fault(view: View, pipeline: Pipeline) -> str | None:
    known = [name for table in (*pipeline.silver, *pipeline.gold) for name in written_by(table)]
    for table in sources(view):
        if table not in known:
            text = f"reads {table!r}, which is no silver or gold table; {nearest(table, known)}"
            return view.table_fault("MED-1301", text, table)
    return None


def _custom_fault(reader: Reader, pipeline: Pipeline) -> str | None:
    """The fault of a further table that a function reads."""
    tables = [table for table in (*pipeline.silver, *pipeline.gold) if table is not reader]
    for name in reader.also_reads if isinstance(reader, Custom) else ():
        found = next((table for table in tables if name in written_by(table)), None)
        if found is None:
            near = nearest(name, [table.table for table in tables])
            return Fault(
                "MED-1301", f"also_reads {name!r}, which is no silver or gold table of the pipeline; {near}"
            )
        if not isinstance(found, Silver) and not found.storage.change_feed:
            return _feedless("also_reads", name)
    return None


def _join_fault(reader: Reader, pipeline: Pipeline) -> str | None:
    """The fault of the table that a join joins; a table that is named by its path is checked at job start."""
    if not isinstance(reader, Join) or not reader.joins_a_table:
        return None
    found = next(
        (table for table in (*pipeline.silver, *pipeline.gold) if reader.joins in written_by(table)), None
    )
    if found is None:
        right = [table.table for table in (*pipeline.silver, *pipeline.gold) if table is not reader]
        return Fault(
            "MED-1301",
            f"joins {reader.joins!r}, which the pipeline does not declare; {nearest(reader.joins, right)}",
        )
    if isinstance(found, Silver) or reader.mode == "lookup":
        return None
    if reader.mode == "stream":
        return Fault(
            "MED-1305", f'joins {reader.joins!r}, whose rows change; mode="stream" joins a silver table'
        )
    return None if found.storage.change_feed else _feedless("joins", reader.joins)


def _feedless(how: str, table: str) -> str:
    return Fault(
        "MED-1305",
        f"{how} {table!r}, whose changes it needs: declare {table} with storage=Storage(change_feed=True)",
    )


def _cycles(pipeline: Pipeline) -> Iterator[tuple[str, ...]]:
    reads = {table.table: sources(table) for table in readers(pipeline)}
    done: set[str] = set()

    def walk(table: str, trail: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if table in trail:
            yield trail[trail.index(table) :]
        elif table in reads and table not in done:
            for source in reads[table]:
                yield from walk(source, (*trail, table))
            done.add(table)

    for start in reads:
        yield from walk(start, ())
