"""Folders and files of a pipeline.

``data_dir`` (local)
├── kafka/                      the embedded broker, shared by the folder's pipelines
└── <pipeline>/                 with the environment's prefix before it: dev_shop
    ├── tables/<layer>/<table>  Delta tables        (elsewhere with the setting ``warehouse``)
    ├── tables/quality/results  results of quality suites, a Delta table
    ├── checkpoints/<query>     streaming checkpoints (elsewhere with ``checkpoints``)
    ├── leases/                 one lock file per table (in tables/_leases where tables are local)
    ├── audit/                  end positions of the last audits without a fault
    ├── alerts/                 the alerts that are raised, and the lock of the process that watches
    ├── catalog/                what is registered in a catalog, one file per job name
    ├── backfills/              what each backfill has read, one file per run
    ├── jobs/                   the state of each job, one file per job name
    ├── quality/                Great Expectations' results and Data Docs
    ├── channel/                sockets by which commands ask the running jobs
    ├── queries/                failures and restarts of the queries, one file per query
    └── log/                    logs of the jobs
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from common.config import object_store
from common.config.settings import Settings
from common.declare import Pipeline
from common.declare.declared import is_in_catalog, is_outside
from common.errors import SettingsError, SetupError, UsageError
from common.machine.storage_folder import StorageFolder

HISTORY = "ops.micro_batches"
"""The table with the history of micro-batches (``orchestration.access.history.micro_batches``)."""

GAPS = "ops.gaps"
"""The table of offsets that are accepted as lost (``orchestration.records.audit.accepted_gaps``)."""

DISMISSED = "ops.dismissed_receipts"
"""The table of receipts that are known to be wrong (``orchestration.records.receipts.dismiss``)."""

ERASED = "ops.erased"
"""The table of records that were erased (``orchestration.access.progress.erased``)."""


def broker_dir(settings: Settings) -> Path:
    """Folder of the embedded broker."""
    return settings.data_dir.resolve() / "kafka"


def user_home() -> Path | None:
    """The home folder of this process's user; None where no ``HOME`` is set and ``/etc/passwd`` has no entry.

    A container may run with any user id.
    """
    try:
        return Path.home()
    except RuntimeError:
        return None


def expanded(path: Path) -> Path:
    """The path with the home folder in the place of its ``~``; as it is where the user has none."""
    return path if user_home() is None else path.expanduser()


def user_cache() -> Path:
    """Cache folder that all pipelines of a user share: jars, class archives, the bundled Java's wrapper.

    Raises:
        SetupError: The user has no home folder, and no variable names another one.
    """
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))  # a relative path is invalid by XDG's specification
    if xdg.is_absolute():
        return xdg / "medallion"
    if (home := user_home()) is None:
        raise SetupError(
            "There is no folder for jars and for what set-up builds: HOME and XDG_CACHE_HOME are not set, "
            f"and the user id {os.getuid()} has no entry in /etc/passwd. Set XDG_CACHE_HOME to a folder that "
            "this user may write."
        )
    return home / ".cache" / "medallion"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one pipeline.

    Attributes:
        warehouse: Folder or URI of the tables, ``<layer>/<table>`` in it; without a slash at the end. A
            ``file:`` URI is given as a folder, so that one folder has one set of leases.
        checkpoints: Folder or URI of the checkpoints, one per query name.
        local: Folder of the files that are always local: leases, logs, quality results.
        bronze: In a sandbox, where another environment's tables are: its bronze tables are read.
        shared: Bronze tables of files whose records go into another table, and that table.
        outside: Delta tables that bronze reads and the pipeline does not write, by their names among the
            tables that queries read: their paths.
        copies: Checkpoints of which a copy stands for the query's own, and the copy's path.
        names: Folder or URI of what the starts have found in catalogs: a file per name, with the table's
            folder. Empty: it is in ``checkpoints``.
    """

    warehouse: str
    checkpoints: str
    local: Path
    bronze: str | None = None
    shared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    outside: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    copies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    names: str = ""

    @classmethod
    def of(cls, pipeline: Pipeline, settings: Settings) -> Layout:
        """The layout of a pipeline under these settings; this process then reaches their object store.

        Raises:
            SettingsError: A folder of the settings is a symbolic link that leads nowhere.
        """
        object_store.connect(settings)
        name = f"{settings.table_prefix}{pipeline.name}"
        local = _followed(settings.data_dir) / name
        other = settings.sandbox_source
        return cls(
            warehouse=_root(settings.warehouse, name, local / "tables"),
            checkpoints=_root(settings.checkpoints, name, local / "checkpoints"),
            local=local,
            bronze=None if other is None else cls.of(pipeline, other).warehouse,
            shared={one.table: one.into for one in pipeline.files if one.into is not None},
            outside={one.reads: one.folder for one in pipeline.delta_tables},
        )

    def require_own(self, tables: Iterable[str]) -> None:
        """Refuse to write tables that a sandbox only reads.

        Raises:
            UsageError: A table is a bronze table of another environment.
        """
        if self.bronze is None:
            return
        other = [table for table in tables if table.startswith("bronze.")]
        if other or self.bronze == self.warehouse:
            raise UsageError(
                f"{', '.join(other) or 'the warehouse'} belongs to another environment ({self.bronze}); a "
                "sandbox reads its bronze tables and writes only tables of its own. Leave --sandbox out to "
                "write there."
            )

    def table_path(self, table: str) -> str:
        """Path or URI of a table such as ``silver.quakes`` or ``silver.quakes__quarantine``.

        A Delta table that is named by its path has that one; one that a catalog names has the folder that
        the last start has found there, before the first start one that there is not.
        """
        table = self.outside.get(table, table)
        if is_in_catalog(table):
            found = StorageFolder(self.catalog_names).read(table)
            return f"{self.catalog_names}/{table}" if found is None else found.decode()
        if is_outside(table):
            return table
        layer, _, name = self.shared.get(table, table).partition(".")
        root = self.bronze if layer == "bronze" and self.bronze is not None else self.warehouse
        return f"{root}/{layer}/{name}"

    def checkpoint_path(self, query: str) -> str:
        """Path or URI of a query's checkpoint; a query has the name of the table that it writes."""
        return self.copies.get(query) or f"{self.checkpoints}/{query}"

    @property
    def catalog_names(self) -> str:
        """Path or URI of the files with the folders of tables that catalogs name."""
        return self.names or f"{self.checkpoints}/_catalog"

    def file_list_path(self, table: str) -> str:
        """Path or URI of the list of files that a bronze table has read; it outlives the checkpoint."""
        return f"{self.checkpoints}/{table}__files"

    @property
    def leases(self) -> Path:
        """Folder of the lock files: beside local tables, for all processes that share the tables."""
        if is_local(self.warehouse):
            return Path(self.warehouse) / "_leases"
        return self.local / "leases"

    @property
    def alerts(self) -> Path:
        """Folder of the alerts' file and lock."""
        return self.local / "alerts"

    @property
    def catalog(self) -> Path:
        """Folder of what the jobs have registered in a catalog."""
        return self.local / "catalog"

    @property
    def jobs(self) -> Path:
        """Folder of the jobs' state files."""
        return self.local / "jobs"

    @property
    def backfills(self) -> Path:
        """Folder of the records of backfills, one file per run."""
        return self.local / "backfills"

    @property
    def log(self) -> Path:
        """Folder of the jobs' log files."""
        return self.local / "log"

    @property
    def channel(self) -> Path:
        """Folder of the sockets by which commands ask the running jobs."""
        return self.local / "channel"

    @property
    def query_states(self) -> Path:
        """Folder of the queries' failures and restarts."""
        return self.local / "queries"

    @property
    def quality(self) -> Path:
        """Folder of Great Expectations' results and Data Docs."""
        return self.local / "quality"


def is_local(path: str) -> bool:
    """Whether a path is on a local disk and not a URI of an object store."""
    return "://" not in path


def all_tables(pipeline: Pipeline) -> tuple[str, ...]:
    """Full names of all tables that a pipeline writes, side tables included, in the order of data flow."""
    names: list[str] = []
    into = {files.table for files in pipeline.files if files.into is not None}
    for table in pipeline.tables:
        if table.table in into:
            continue
        names.append(table.table)
        names.extend(table.side_tables)
    return tuple(names)


def queryable_tables(pipeline: Pipeline) -> tuple[str, ...]:
    """What SQL can name: ``all_tables``, published versions of tables with a gate, and the engine's own."""
    published = (f"{suite.table}__published" for suite in pipeline.quality if suite.gate == "publish")
    return (*all_tables(pipeline), *published, "quality.results", HISTORY, GAPS, ERASED, DISMISSED)


def _root(setting: str | None, pipeline: str, default: Path) -> str:
    if setting is None:
        return str(default)
    if setting.startswith("file:"):
        setting = unquote(urlsplit(setting).path)
    base = setting.rstrip("/") if not is_local(setting) else str(_followed(Path(setting)))
    return f"{base}/{pipeline}"


def _followed(folder: Path) -> Path:
    """A folder without symbolic links on its way.

    Raises:
        SettingsError: A link leads nowhere, as to a disk that is not mounted: everything would begin anew in
            a folder made there.
    """
    for place in (folder, *folder.parents):
        if place.is_symlink() and not place.exists():
            raise SettingsError(
                f"{folder}: {place} is a symbolic link to {place.readlink()}, which is not there. Mount its "
                "disk, create that folder, or correct the link; nothing was written."
            )
    return folder.resolve()
