"""When a query starts a micro-batch and how much it reads: its declaration or else its settings say it."""

from __future__ import annotations

from collections.abc import Mapping

from common.config.settings import Settings
from common.declare import Gold, Publish, Silver, Table


def trigger_of(declared: Table | Publish, settings: Settings) -> str:
    """The trigger of a query; empty: the next micro-batch starts as soon as there is data."""
    layer = "gold" if declared.LAYER == "publish" else declared.LAYER
    given: str = getattr(settings, layer).trigger
    return given if declared.trigger is None else declared.trigger


def read_limits(declared: Silver | Gold | Publish, settings: Settings) -> Mapping[str, str]:
    """How much of a Delta table a query reads in one micro-batch, as options of Delta's source."""
    section = settings.silver if isinstance(declared, Silver) else settings.gold
    files = declared.max_files_per_trigger or section.max_files_per_trigger
    size = declared.max_bytes_per_trigger or section.max_bytes_per_trigger
    return source_limits(files, size)


NO_LIMIT: Mapping[str, str] = {"maxFilesPerTrigger": str(2**31 - 1)}
"""Options with which a micro-batch has all of a Delta table; without them Delta has a limit of its own."""


def source_limits(files: int, size: str | None) -> Mapping[str, str]:
    """Options of Delta's source for the most files and bytes of a micro-batch."""
    return {"maxFilesPerTrigger": str(files)} | ({} if size is None else {"maxBytesPerTrigger": size})
