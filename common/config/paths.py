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


class _OfThisMachine:
    """A folder of the files that are always local."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, layout: Layout, kind: type[Layout]) -> Path:
        return layout.local / self._name


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one pipeline."""

    # Folder or URI of the tables, ``<layer>/<table>`` in it; without a slash at the end. A ``file:`` URI is
    # given as a folder, so that one folder has one set of leases.
    warehouse: str
    checkpoints: str  # folder or URI of the checkpoints, one per query name
    local: Path  # folder of the files that are always local: leases, logs, quality results
    # In a sandbox, where another environment's tables are: its bronze tables are read.
    bronze: str | None = None
    # Bronze tables of files whose records go into another table, and that table.
    shared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Delta tables that bronze reads and the pipeline does not write, by their names among the tables that
    # queries read: their paths.
    outside: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Checkpoints of which a copy stands for the query's own, and the copy's path.
    copies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Tables that are elsewhere than in ``warehouse``, and where.
    locations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # By layer, the folder or URI of its checkpoints, where it is another one than ``checkpoints``.
    roots: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Folder or URI of what the starts have found in catalogs: a file per name, with the table's folder.
    # Empty: it is in ``checkpoints``.
    names: str = ""

    # Folders in ``local``, by what they have.
    alerts = _OfThisMachine("alerts")  # the alerts' file and lock
    catalog = _OfThisMachine("catalog")  # what the jobs have registered in a catalog
    jobs = _OfThisMachine("jobs")  # the jobs' state files
    backfills = _OfThisMachine("backfills")  # the records of backfills, one file per run
    log = _OfThisMachine("log")  # the jobs' log files
    channel = _OfThisMachine("channel")  # the sockets by which commands ask the running jobs
    query_states = _OfThisMachine("queries")  # the queries' failures and restarts
    quality = _OfThisMachine("quality")  # Great Expectations' results and Data Docs

    @classmethod
    def of(cls, pipeline: Pipeline, settings: Settings) -> Layout:
        """The layout of a pipeline under these settings; this process then reaches their object store.

        Raises:
            SettingsError: A folder of the settings is a symbolic link that leads nowhere, or a table is
                declared to be in another store than ``warehouse``.
        """
        object_store.connect(settings)
        name = f"{settings.table_prefix}{pipeline.name}"
        local = _followed(settings.data_dir) / name
        source = settings.sandbox_source
        other = None if source is None else cls.of(pipeline, source)
        warehouse = _root(settings.warehouse, name, local / "tables")
        locations = _locations(pipeline, settings, warehouse)
        if other is not None:
            own = {table: place for table, place in locations.items() if not table.startswith("bronze.")}
            locations = {**other.locations, **own}
        by_layer = {
            "bronze": settings.bronze.checkpoints,
            "silver": settings.silver.checkpoints,
            "gold": settings.gold.checkpoints,
        }
        return cls(
            warehouse=warehouse,
            checkpoints=_root(settings.checkpoints, name, local / "checkpoints"),
            local=local,
            bronze=None if other is None else other.warehouse,
            shared={one.table: one.into for one in pipeline.files if one.into is not None},
            outside={one.reads: one.folder for one in pipeline.delta_tables},
            locations=locations,
            roots={
                layer: _root(given, name, local / "checkpoints")
                for layer, given in by_layer.items()
                if given is not None
            },
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
        table = self.shared.get(table, table)
        if table in self.locations:
            return self.locations[table]
        layer, _, name = table.partition(".")
        root = self.bronze if layer == "bronze" and self.bronze is not None else self.warehouse
        return f"{root}/{layer}/{name}"

    def checkpoint_path(self, query: str) -> str:
        """Path or URI of a query's checkpoint; a query has the name of the table that it writes."""
        return self.copies.get(query) or f"{self.checkpoint_root(query)}/{query}"

    def checkpoint_root(self, query: str) -> str:
        """Folder or URI of the checkpoints of a query's layer; publications have gold's."""
        layer = query.partition(".")[0]
        return self.roots.get("gold" if layer == "publish" else layer, self.checkpoints)

    @property
    def checkpoint_roots(self) -> tuple[str, ...]:
        """The folders or URIs in which checkpoints are, each once."""
        return tuple(dict.fromkeys((self.checkpoints, *self.roots.values())))

    def lease_of(self, table: str) -> tuple[str, str]:
        """Where the lease of a table in an object store is: the folder or URI around it, and its name there.

        It follows from the table's path alone, by which the log store finds it before each commit.
        """
        if (place := self.locations.get(table)) is None:
            return self.warehouse, table
        root, layer, name = place.rsplit("/", 2)
        return root, f"{layer}.{name}"

    def locks(self, tables: Iterable[str]) -> Mapping[Path, tuple[str, ...]]:
        """The lock files beside tables that have a folder of their own on a local disk: folders, and names.

        Two pipelines may be declared to write one folder; each has the leases of its own tables besides.
        """
        found: dict[Path, tuple[str, ...]] = {}
        for place in (self.locations[one] for one in tables if one in self.locations):
            if is_local(place):
                folder = Path(place).parent / "_leases"
                found[folder] = (*found.get(folder, ()), Path(place).name)
        return found

    @property
    def catalog_names(self) -> str:
        """Path or URI of the files with the folders of tables that catalogs name."""
        return self.names or f"{self.checkpoints}/_catalog"

    def file_list_path(self, table: str) -> str:
        """Path or URI of the list of files that a bronze table has read; it outlives the checkpoint."""
        return f"{self.checkpoint_root(table)}/{table}__files"

    @property
    def leases(self) -> Path:
        """Folder of the lock files: beside local tables, for all processes that share the tables."""
        if is_local(self.warehouse):
            return Path(self.warehouse) / "_leases"
        return self.local / "leases"


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


def _locations(pipeline: Pipeline, settings: Settings, warehouse: str) -> Mapping[str, str]:
    """Where tables are that have a folder of their own, and those beside them."""
    found: dict[str, str] = {}
    for declared in pipeline.tables:
        if (folder := declared.storage.folder) is None:
            continue
        if _store(folder) != _store(warehouse):
            raise SettingsError(
                f"{declared.table}: its location {folder} and the warehouse {warehouse} are not in one kind "
                "of store. A job holds the leases of its tables in one way: by locks of this machine's "
                "kernel for local folders, by conditional puts in an object store. Name a location of the "
                "same kind, or set warehouse to a folder of the location's."
            )
        if is_local(folder):
            folder = str(_followed(Path(folder)))
        parent, _, name = folder.rpartition("/")
        for table in (declared.table, *declared.side_tables):
            if table.startswith(declared.table):
                more = table.removeprefix(declared.table)
                found[table] = f"{parent}/{settings.table_prefix}{name}{more}"
    return found


def _store(path: str) -> str:
    """The scheme of a URI; empty of a local path."""
    return "" if is_local(path) else urlsplit(path).scheme


def _followed(folder: Path) -> Path:
    """A folder without symbolic links on its way."""
    for place in (folder, *folder.parents):
        if place.is_symlink() and not place.exists():
            raise SettingsError(
                f"{folder}: {place} is a symbolic link to {place.readlink()}, which is not there. Mount its "
                "disk, create that folder, or correct the link; nothing was written."
            )
    return folder.resolve()
