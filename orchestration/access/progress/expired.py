"""Silver tables that are new and will lack records, because retention has deleted them from bronze."""

from __future__ import annotations

from common.config.paths import Layout
from common.declare import Pipeline
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_text, expired_topics
from common.machine.storage_folder import StorageFolder


def lacking_records(pipeline: Pipeline, layout: Layout) -> tuple[str, ...]:
    """One sentence per declared silver table that does not exist yet and whose bronze table lacks records.

    Only tables on a local disk are read: a check needs no network.
    """
    found: list[str] = []
    for silver, source in ((one, source) for one in pipeline.silver for source in one.sources):
        if not StorageFolder(layout.table_path(source)).is_local:
            continue
        if LogReader(layout.table_path(silver.table)).latest_version() is not None:
            continue
        if topics := expired_topics(LogReader(layout.table_path(source)).properties()):
            found.append(
                f"{silver.table} is new, and will lack records that {source} no longer has: "
                f"{expired_text(topics)}."
            )
    return tuple(found)
