"""How long a Delta table keeps its log, and data files that its current version does not need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

LOG = "delta.logRetentionDuration"
FILES = "delta.deletedFileRetentionDuration"

_STANDARD = {LOG: timedelta(days=30), FILES: timedelta(days=7)}
_DURATION = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)


def retention(properties: Mapping[str, str], name: str) -> timedelta:
    """The duration of a property, ``LOG`` or ``FILES``; Delta's own where the table does not set it."""
    match = _DURATION.search(properties.get(name, ""))
    return _STANDARD[name] if match is None else timedelta(**{f"{match[2].lower()}s": int(match[1])})
