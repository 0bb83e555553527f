"""Where everything of a pipeline lives.

``data_dir`` (local)
├── kafka/                      the embedded broker, shared by all pipelines of this folder
└── <pipeline>/
    ├── tables/<layer>/<table>  Delta tables        (elsewhere with the setting ``warehouse``)
    ├── checkpoints/<query>     streaming checkpoints (elsewhere with ``checkpoints``)
    ├── leases/                 one lock file per table (in tables/_leases where tables are local)
    ├── audit/                  where the last audits that balanced ended
    ├── quality/                Great Expectations' results and Data Docs
    └── log/                    logs of the jobs
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from common.config.settings import Settings
from common.declare import Pipeline


def broker_dir(settings: Settings) -> Path:
    """The embedded broker's folder."""
    return settings.data_dir.resolve() / "kafka"


def user_cache() -> Path:
    """What is fetched once for this user and shared by all pipelines: jars, and a Java's wrapper."""
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))  # its specification: ignore a relative one
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "medallion"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one pipeline.

    Attributes:
        warehouse: Folder or URI under which tables lie as ``<layer>/<table>``; no slash at its end.
        checkpoints: Folder or URI under which checkpoints lie by query name.
        local: Folder of what is always local: leases, logs, quality results.
    """

    warehouse: str
    checkpoints: str
    local: Path

    @classmethod
    def of(cls, pipeline: Pipeline, settings: Settings) -> Layout:
        """The layout of a pipeline under these settings."""
        local = settings.data_dir.resolve() / pipeline.name
        return cls(
            warehouse=_root(settings.warehouse, pipeline.name, local / "tables"),
            checkpoints=_root(settings.checkpoints, pipeline.name, local / "checkpoints"),
            local=local,
        )

    def table_path(self, table: str) -> str:
        """Path or URI of a table such as ``silver.quakes`` or ``silver.quakes__quarantine``."""
        layer, _, name = table.partition(".")
        return f"{self.warehouse}/{layer}/{name}"

    def checkpoint_path(self, query: str) -> str:
        """Path or URI of a query's checkpoint; a query is named as the table it feeds."""
        return f"{self.checkpoints}/{query}"

    @property
    def leases(self) -> Path:
        """Folder of the lock files: beside local tables, so that all who share them meet there."""
        if is_local(self.warehouse):
            return Path(self.warehouse) / "_leases"
        return self.local / "leases"

    @property
    def log(self) -> Path:
        """Folder of the jobs' logs."""
        return self.local / "log"

    @property
    def quality(self) -> Path:
        """Folder of the quality results and Data Docs."""
        return self.local / "quality"


def is_local(path: str) -> bool:
    """Whether a path is on a local disk and not a URI of an object store."""
    return "://" not in path


def all_tables(pipeline: Pipeline) -> tuple[str, ...]:
    """Full names of every table the pipeline writes, side tables included, in data order."""
    names: list[str] = []
    for table in pipeline.tables:
        names.append(table.table)
        names.extend(table.side_tables)
    return tuple(names)


def _root(setting: str | None, pipeline: str, default: Path) -> str:
    if setting is None:
        return str(default)
    base = setting.rstrip("/") if not is_local(setting) else str(Path(setting).resolve())
    return f"{base}/{pipeline}"
