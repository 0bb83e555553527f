"""The way of a record as a tree for people, and as JSON.

What a record holds is escaped before it is printed, as in ``medallion quarantine show``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from rich.text import Text
from rich.tree import Tree

from orchestration.records.quarantine.contents import escaped


def tree(record: Mapping[str, Any]) -> Tree:
    """A record, its bronze row, and below it silver and gold tables."""
    root = Tree(Text(f"{record['topic']}/{record['partition']}/{record['offset']}", style="bold"))
    bronze = record["bronze"]
    line = root.add(_line(bronze["table"], "" if bronze["place"] == "held" else bronze["place"], bronze))
    if bronze["kafka_timestamp"]:
        line.add(Text(f"Kafka's time {bronze['kafka_timestamp']}, read {bronze['ingested_at']}"))
    if bronze["file"]:
        line.add(Text(f"file {bronze['file']}"))
    for silver in record["silver"]:
        of_silver = root.add(_line(silver["table"], _verdict(silver), silver))
        for gold in silver["gold"]:
            _add_gold(of_silver, gold)
    return root


def _verdict(silver: Mapping[str, Any]) -> str:
    """What silver has made of the record, in words."""
    text = str(silver["place"])
    if silver.get("how"):
        text += f" ({silver['how']})"
    if silver.get("rows", 1) > 1:
        text += f", {silver['rows']} times"
    if silver.get("reasons"):
        text += f": {', '.join(silver['reasons'])}"
    if witness := silver.get("witness"):
        text += f" of {witness['topic']}/{witness['partition']}/{witness['offset']}"
    if silver.get("watermark"):
        text += f", the watermark was {silver['watermark']}"
    return text + (f" ({silver['why']})" if silver.get("why") else "")


def _line(table: str, what: str, told: Mapping[str, Any]) -> Text:
    line = Text.assemble((table, "bold"), f"  {what}" if what else "")
    if told["version"] is not None:
        batch = "" if told["batch_id"] is None else f", micro-batch {told['batch_id']}"
        line.append(f"  version {told['version']}{batch}, {told['committed_at']}", style="dim")
    return line


def _add_gold(parent: Tree, gold: Mapping[str, Any]) -> None:
    line = parent.add(_line(gold["table"], gold["why"], gold))
    for row in gold["rows"]:
        columns = f": {', '.join(row['columns'])}" if row["columns"] else ""
        node = line.add(Text(f"{_shown(row['key'])} {row['change']}{columns}"))
        for name in ("before", "after"):
            if row.get(name) is not None:
                node.add(Text(f"{name} {_shown(row[name])}"))
    for each in gold["gold"]:
        _add_gold(line, each)


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in row.items())


def document(value: Any) -> Any:
    """A value as JSON has it; texts are escaped, as no reader's display is known."""
    if isinstance(value, Mapping):
        return {str(name): document(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [document(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | Decimal):
        return str(value)
    return escaped(value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass"))
