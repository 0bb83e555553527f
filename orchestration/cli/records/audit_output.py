"""The accounts of an audit, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from common.errors import AccountError
from orchestration.access.query.shown_values import part
from orchestration.cli.grid import Column, Grid
from orchestration.records.audit.result import FATES, SHOWN, Account, Fault

_NEXT = {
    "missing": "type the command, or restore the version of the table before the change",
    "no witness": "type the command, or restore the row that this record is a duplicate of",
    "twice": "run an interrupted replay again to finish it; otherwise type the command, or restore the "
    "version before",
    "unknown": "type the command; without one, see the history of the table: which program wrote it",
    "gap": "type the command; without one, read the offsets again from Kafka; a compacted topic, or one "
    "written by transactions, is declared with Topic(…, may_have_gaps=True)",
    "counts": "type the command; without one, see that version in the history of the table: which program "
    "wrote it, and what changed since",
    "changed": "fill the gold table again with medallion rebuild, or restore the version before; or accept "
    "the change by name",
    "values": "type the command, then start the jobs: the gold tables follow; first mend bronze where a line "
    "of bytes names it",
    "bytes": "type the command; without one, restore these files from a copy of the table; where there is "
    "none, the rows are as they are",
    "files": "restore these files from a copy of the table, or type the command",
    "content": "type the command: it fills the table from the rows of its source",
    "history": "type the command, or restore the newest copies of the source and of its checkpoint",
    "publication": "do what the line says, with the jobs stopped",
    "published": "start the gold job: it takes the version back and publishes the next one that passes",
    "erased": "type the command, or have a newer version published",
    "lost commit": "restore the newest copy of the table together with its checkpoint",
    "receipt": "ask who runs the broker what became of these records (an unclean leader election, a disk "
    "that was put back), and have them sent again; a receipt that is wrong itself is dismissed by its name: "
    "medallion receipts dismiss NAME --why TEXT",
    "topic": "start the bronze job: where it cannot go on, it writes nothing and names the command",
}


def table(account: Account) -> Grid:
    """Offsets per topic and partition, by the place where they are."""
    shown = [name for name in FATES if account.totals[name] or name in {"silver", "waiting"}]
    since = f" since {account.since}" if account.since else ""
    columns = [Column("topic/partition"), *(Column(name, "right") for name in ("offsets", *shown))]
    rows: list[list[Text | str]] = [
        [
            f"{one.topic}/{one.partition}",
            f"{one.offsets:,}",
            *(f"{one.counts.get(name, 0):,}" for name in shown),
        ]
        for one in account.partitions
    ]
    if len(account.partitions) > 1:
        totals = ["all", f"{account.offsets:,}", *(f"{account.totals[name]:,}" for name in shown)]
        rows.append([Text(total, style="bold") for total in totals])
    reads = f"{account.each} in {account.reads}" if account.each else account.reads
    return Grid(columns, rows, title=f"{account.table}, of {reads}{since}", is_packed=True)


def verdict(accounts: Sequence[Account]) -> str:
    """The last line of an audit without a fault; it says so if the topics were not compared."""
    elements = " and each of their elements" if any(one.each for one in accounts) else ""
    offsets = f"{_offsets(accounts):,} offsets, each{elements} in exactly one place"
    offsets += (" of each silver table that reads it" if len(accounts) > 1 else "") + _gold(accounts)
    if reasons := dict.fromkeys(one.not_compared for one in accounts if one.not_compared):
        return f"the tables balance: {offsets}; not compared with Kafka: {'; '.join(reasons)}"
    return f"balanced: {offsets}"


def _offsets(accounts: Sequence[Account]) -> int:
    """The offsets of all accounts; those of tables that read the same records are counted once."""
    found: dict[tuple[str, int], int] = {}
    for one in (one for account in accounts for one in account.partitions):
        found[one.topic, one.partition] = max(one.offsets, found.get((one.topic, one.partition), 0))
    return sum(found.values())


def notes(account: Account) -> Iterator[str]:
    """What the audit could not check or compare, in words."""
    yield from account.notes
    if account.undigested:
        is_one = account.undigested == 1
        yield (
            f"{account.undigested:,} micro-batch{' of' if is_one else 'es of'} {account.reads} "
            f"{'was' if is_one else 'were'} checked by offsets, not byte by byte: the commit has no digest "
            "of its rows, as where Spark wrote it into an object store or an earlier version did"
        )
    for one in account.gold:
        if one.left_out and not one.why:
            yield f"{one.table}: {one.left_out}"
        if one.why:
            yield f"{one.table} was not compared with its declaration: {one.why}"
        elif one.without:
            yield f"{one.table} was compared without {one.without}, which may differ when computed again"
        elif one.open_rows:
            yield (
                f"{one.table}: {one.open_rows:,} row{' is' if one.open_rows == 1 else 's are'} not compared: "
                "its statement leaves open which rows or values come (LIMIT, row_number() or first() among "
                "rows of one place)"
            )


def _gold(accounts: Sequence[Account]) -> str:
    compared = [table for one in accounts for table in one.gold if not table.why]
    if not compared:
        return ""
    ranges = sum(bool(table.range_of) for table in compared)
    noun = (
        "1 gold table is what its declaration gives"
        if len(compared) == 1
        else (f"{len(compared)} gold tables are what their declarations give")
    )
    return f"; {noun}{f', {ranges} of them in a range of keys' if ranges else ''}"


def error(accounts: Sequence[Account]) -> AccountError:
    """The faults, with coordinates and the next step."""
    lines = []
    for one in accounts:
        if one.faults:
            lines.append(f"{one.table} does not balance:")
            lines += [f"  {line}" for fault in one.faults for line in _fault_lines(fault)]
    return AccountError("\n".join(lines))


def _fault_lines(fault: Fault) -> list[str]:
    below = " and ".join(fault.after)
    step = f"mend the faults of {below}, then audit again" if below else _NEXT[fault.name]
    if fault.keys:
        more = f", and {fault.count - len(fault.keys):,} more" if fault.count > len(fault.keys) else ""
        return [
            f"{fault.name}: {fault.text}",
            f"  keys: {', '.join(fault.keys)}{more}",
            f"  next: {step}",
        ]
    if not fault.examples:
        return [f"{fault.name}: {fault.text}", f"  next: {step}"]
    places = ", ".join(f"{topic}/{partition}/{offset}" for topic, partition, offset in fault.examples)
    more = f", and {fault.count - len(fault.examples):,} more" if fault.count > SHOWN else ""
    noun = "offset" if fault.count == 1 else "offsets"
    return [
        f"{fault.name}: {fault.count:,} {noun}: {fault.text}",
        f"  topic/partition/offset: {places}{more}",
        f"  next: {step}",
    ]


def document(accounts: Sequence[Account]) -> dict[str, Any]:
    """The JSON document that ``medallion audit --json`` prints."""
    return {
        "balanced": not any(one.faults for one in accounts),
        "offsets": _offsets(accounts),
        "tables": [
            {
                "table": one.table,
                "reads": one.reads,
                "balanced": not one.faults,
                "since": one.since or None,
                **part(one, "batch_id", "versions", "offsets", "looked_at", "totals"),
                "partitions": [
                    {
                        **part(each, "topic", "partition", "first", "end", "offsets"),
                        **{name: each.counts.get(name, 0) for name in FATES},
                    }
                    for each in one.partitions
                ],
                "faults": [
                    {
                        "fault": fault.name,
                        "text": fault.text,
                        "count": fault.count,
                        "examples": [
                            {"topic": topic, "partition": partition, "offset": offset}
                            for topic, partition, offset in fault.examples
                        ],
                        "keys": list(fault.keys),
                    }
                    for fault in one.faults
                ],
                "gold": [part(each) for each in one.gold],
                "without_digest": one.undigested,
                "notes": list(one.notes),
                "compared_with_kafka": not one.not_compared,
                "not_compared_because": one.not_compared or None,
                "seconds": round(one.seconds, 3),
            }
            for one in accounts
        ],
    }
