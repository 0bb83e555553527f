"""The last result of each quality suite, from the files of its runs; without Great Expectations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from common.declare import Quality

_VERSION = re.compile(r" version (\d+)$")


@dataclass(frozen=True, slots=True)
class LastResult:
    """The newest run of one suite.

    Attributes:
        table: The table that the suite checks.
        version: The version that was checked; None if the run does not say it.
        at: When it was checked.
        is_met: Whether all expectations were met.
        checked: Number of expectations.
        failed: Those that were not met: name, and column where it has one. No value of a row.
    """

    table: str
    version: int | None
    at: datetime
    is_met: bool
    checked: int
    failed: tuple[str, ...]


def last_results(folder: Path, suites: Iterable[Quality]) -> tuple[LastResult, ...]:
    """The newest result of each suite that was run, in the order of the suites.

    Args:
        folder: The folder of quality results (``Layout.quality``).
        suites: The declared suites.
    """
    found = (_newest(folder / "gx" / "uncommitted" / "validations", suite.table) for suite in suites)
    return tuple(result for result in found if result is not None)


def _newest(folder: Path, table: str) -> LastResult | None:
    files = (folder / table.replace(".", "/")).glob("*/*/*.json")
    for file in sorted(files, key=lambda file: file.parent.name, reverse=True):
        try:
            return _parsed(table, json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a run that was interrupted while it wrote
    return None


def _parsed(table: str, content: dict[str, Any]) -> LastResult:
    run = content["meta"]["run_id"]
    version = _VERSION.search(run["run_name"] or "")
    failed = [one["expectation_config"] for one in content["results"] if not one["success"]]
    return LastResult(
        table=table,
        version=None if version is None else int(version[1]),
        at=datetime.fromisoformat(run["run_time"]),
        is_met=bool(content["success"]),
        checked=len(content["results"]),
        failed=tuple(" ".join(filter(None, [one["type"], one["kwargs"].get("column")])) for one in failed),
    )
