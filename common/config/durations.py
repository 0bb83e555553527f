"""Durations of settings as text: ``500 milliseconds``, ``2 seconds``, ``10 minutes``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from common.declare.intervals import parse_duration


def duration_text(text: object) -> str:
    """A duration in Spark's notation, which has no short units such as ``s``.

    Raises:
        ValueError: The text is no duration.
    """
    length = parse_duration(text) if isinstance(text, str) else None
    if length is None:
        raise ValueError(f"{text!r} is not a duration; write it like '500 milliseconds' or '2 seconds'")
    return str(length)


def seconds_of(text: str) -> float:
    """The seconds of a duration that a setting has accepted."""
    length = parse_duration(text)
    assert length is not None  # noqa: S101  # validated
    return length.seconds


Duration = Annotated[str, BeforeValidator(duration_text)]
