"""When a query starts its next micro-batch: the words of a trigger, in declarations and in settings."""

from __future__ import annotations

from common.declare.intervals import duration_text

FOLLOW = "follow"
"""The trigger of a query that starts a micro-batch when its source tables get a commit."""


def own_trigger(text: object) -> str:
    """The trigger of a query whose source is no table; an empty text is ``asap``.

    Raises:
        ValueError: The text is no interval, and is not ``asap``.
    """
    if _word(text) == FOLLOW:
        raise ValueError(
            "bronze reads Kafka and has no table to follow; write an interval like '1 second', or 'asap'"
        )
    return following_trigger(text)


def following_trigger(text: object) -> str:
    """The trigger of a query that reads a table; an empty text is ``asap``.

    Raises:
        ValueError: The text is no interval, and is neither ``follow`` nor ``asap``.
    """
    word = _word(text)
    if word in {"", "asap"}:
        return ""
    if word == "continuous":
        raise ValueError(
            "Spark's continuous processing cannot write Delta tables; write 'asap', which starts the next "
            "micro-batch as soon as data is there"
        )
    return FOLLOW if word == FOLLOW else duration_text(text)


def _word(text: object) -> str | None:
    return text.strip().lower() if isinstance(text, str) else None
