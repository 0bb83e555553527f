"""Proposes a table with a row per element for arrays of objects, beside the table of the messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from orchestration.author.propose import value_shapes
from orchestration.author.propose.pipeline_source import Proposal
from orchestration.author.propose.value_shapes import Leaf, Shape

_MOST = 3
"""Most arrays of one topic that get a table each."""

_POSITION = "position"


def tables_of_elements(
    whole: Proposal,
    shape: Shape,
    *,
    column: Callable[[Sequence[str]], str],
    moment: Callable[[str, str], str],
) -> Iterator[Proposal]:
    """A table per array of objects: the columns of each element, with key and event time of its message.

    Args:
        whole: The table of the messages.
        column: Makes a column's name of a path.
        moment: Makes a timestamp of a number since 1970, by its unit.
    """
    found = [leaf for leaf in value_shapes.leaves(shape) if _has_objects(leaf)]
    for leaf in found[:_MOST]:
        items = leaf.shape.items or Shape()
        part = Proposal(whole.topic, f"{whole.table}_{column(leaf.path)}", bronze=whole.bronze or whole.table)
        part.format, part.value, part.messages = whole.format, whole.value, whole.messages
        part.each = ".".join(leaf.path)
        part.remarks = [
            f"a row per element of {part.each}: {items.seen:,} in {whole.messages:,} sampled messages"
        ]
        _add_columns(part, whole, leaf, items, column, moment)
        yield part


def _has_objects(leaf: Leaf) -> bool:
    is_path = all("." not in name for name in leaf.path)
    return is_path and leaf.shape.type.startswith("array<struct<")


def _add_columns(  # noqa: PLR0913, PLR0917  # what the columns are made of
    part: Proposal,
    whole: Proposal,
    leaf: Leaf,
    items: Shape,
    column: Callable[[Sequence[str]], str],
    moment: Callable[[str, str], str],
) -> None:
    key = list(whole.key)
    if "message_digest" in key:  # the bytes of an element do not tell its message from others
        coordinates = {"message_partition": "_kafka.partition", "message_offset": "_kafka.offset"}
        part.columns |= coordinates
        key = list(coordinates)
    kept = dict.fromkeys((*key, whole.event_time))
    part.columns |= {name: whole.columns[name] for name in kept if name in whole.columns}
    part.columns[_POSITION] = "_kafka.element"
    part.notes[_POSITION] = "of the element in its message, from 0 on"
    for inner in value_shapes.leaves(items):
        name = column(inner.path)
        while name in part.columns:
            name = column((leaf.path[-1], name))
        sql = f"{leaf.sql}.{inner.sql}"
        unit = inner.shape.epoch(inner.path[-1])
        part.columns[name] = moment(sql, unit) if unit else sql
    part.key, part.event_time, part.watermark = [*key, _POSITION], whole.event_time, whole.watermark
    part.notes["key"] = "of the message, and the position of the element in it"
