"""What a recovery does or has done, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from common.machine.terminal import count_of
from orchestration.access.query.shown_values import part
from orchestration.cli.observe.status_output import bytes_text

if TYPE_CHECKING:  # imports Spark, which other commands do not need
    from orchestration.access.history.effort import Effort
    from orchestration.change.recover.remedies import Step
    from orchestration.records.audit.accepted_gaps import Gap

_VERBS = {
    "repair": ("would be repaired", "repaired"),
    "refill": ("would be filled again", "is filled again"),
    "rebuild": ("would be filled again", "is filled again"),
    "publish again": ("would publish every row again", "publishes every row again"),
}


def step_lines(step: Step, *, is_plan: bool) -> Iterator[str]:
    """One step: what is done, how long it takes, why, and what is replaced or moved."""
    verb = _VERBS[step.kind][0 if is_plan else 1]
    if step.kind == "repair":
        what, by = ("list of files", "rows") if step.folder else ("checkpoint", "commits")
        yield f"{step.query}: its {what} {verb} by the {by} of the table"
    else:
        when = "" if is_plan else " by the next start"
        yield f"{step.query}: {verb} from {' and '.join(step.reads)}{when}: {effort_text(step.effort)}"
    for reason in step.reasons:
        yield f"  because {reason}"
    for change in step.changes:
        yield f"  {'would change' if is_plan else 'changes'} {change.name}: {change.reason}"
    for path in step.moves:
        yield f"  {'would move' if is_plan else 'moves'} {path} aside"


def step_document(step: Step) -> dict[str, Any]:
    """One step as JSON."""
    return {
        **part(step, "query", "kind", "reasons", "reads", "moves"),
        "changes": [f"{change.name}: {change.reason}" for change in step.changes],
        **part(step.effort, "rows", "bytes", "seconds"),
    }


def gap_line(gap: Gap, *, is_plan: bool) -> str:
    """One gap, with its offsets and times."""
    verb = "would be accepted" if is_plan else "are accepted"
    if not gap.offsets:
        return f"{gap.bronze}: {gap.reason}: they {verb} as lost, before offset {gap.first_offset:,}"
    between = f"after {_moment(gap.read_at)} and before {_moment(gap.next_at)}"
    return (
        f"{gap.bronze}: {gap.offsets:,} offsets {verb} as lost ({gap.reason}): {gap.first_offset} to "
        f"{gap.last_offset} of topic {gap.topic}, partition {gap.partition}, {between}"
    )


def gap_document(gap: Gap) -> dict[str, Any]:
    """One gap as JSON."""
    times = {name: at.isoformat() for name, at in asdict(gap).items() if isinstance(at, datetime)}
    return {**asdict(gap), "offsets": gap.offsets, **times}


def _moment(at: datetime | None) -> str:
    return "an unknown time" if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z"


def effort_text(effort: Effort, *, knows_bytes: bool = True) -> str:
    """What is read, and how long it takes."""
    if effort.rows is None or effort.seconds is None:
        return "the number of rows is not known, because a table that it reads is damaged or gone"
    speed = "at the speed of its last micro-batches" if effort.is_measured else "at a usual speed"
    size = f", {bytes_text(effort.bytes)}" if knows_bytes else ""
    return f"{count_of(effort.rows, 'rows')}{size}, {_time_text(effort.seconds)} {speed}"


def _time_text(seconds: float) -> str:
    if seconds < 1:
        return "about a second"
    if seconds < 120:  # noqa: PLR2004
        return f"about {seconds:.0f} s"
    if seconds < 7200:  # noqa: PLR2004
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
