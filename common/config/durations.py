"""Durations of settings as text: ``500 milliseconds``, ``2 seconds``, ``10 minutes``."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from common.declare.intervals import duration_text, parse_duration


def seconds_of(text: str) -> float:
    """The seconds of a duration that a setting has accepted."""
    length = parse_duration(text)
    assert length is not None  # noqa: S101  # validated
    return length.seconds


Duration = Annotated[str, BeforeValidator(duration_text)]
