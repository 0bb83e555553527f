"""Tries the command that a refusal names before its message is printed: what it would do, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from common.errors import CheckpointMismatchError, MedallionError
from orchestration.access.declaration.context import Context

if TYPE_CHECKING:  # imports Spark, which other commands do not need
    from orchestration.change.recover.remedies import Kind, Step

_COMMAND = "medallion recover"

_DONE: dict[Kind, str] = {
    "repair": "repairs",
    "refill": "has filled again",
    "rebuild": "has filled again",
    "publish again": "has every row published again of",
}


@contextmanager
def tried_remedies(ready: Context) -> Iterator[None]:
    """Add to a refusal of the block what ``medallion recover`` would do now; no table or file is changed.

    Raises:
        CheckpointMismatchError: That of the block, with a further line if it names the command.
    """
    try:
        yield
    except CheckpointMismatchError as error:
        if _COMMAND not in str(error) or not (told := _told(ready)):
            raise
        raise CheckpointMismatchError(f"{error}\n{told}") from error


def _told(ready: Context) -> str:
    from orchestration.change.recover.remedies import plan
    from orchestration.run.topic_checks import broker_asker

    ask = broker_asker(ready.pipeline, ready.settings, ready.layout)
    try:
        steps = plan(ready.pipeline, ready.layout, None, ask=ask)
    except MedallionError as refusal:
        return f"Tried: {_COMMAND} would be refused now: {refusal}"
    except Exception:  # noqa: BLE001  # of any library: the refusal itself is what has to be told
        return ""
    return f"Tried: {_COMMAND} {'; '.join(_words(steps))}" if steps else ""


def _words(steps: Sequence[Step]) -> Iterator[str]:
    for words in dict.fromkeys(_DONE.values()):
        if names := [step.query for step in steps if _DONE[step.kind] == words]:
            yield f"{words} {', '.join(names)}"
