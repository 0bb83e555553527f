"""Every Spark setting that the engine sets: ``session_conf.tsv`` has the value per profile and the reason.

The profile follows from Spark's master: ``small`` is one machine with one process that does all the work;
``cluster`` is everything else. The user's settings take precedence over all of these except ``OURS``.
``docs/install/settings.md`` is generated from it. A value that each installation chooses (memory,
partitions) is a setting of the engine and appears here by the name of that setting.

In the table ``-`` keeps Spark's default, ``=`` is the value of one machine, and what follows ``run:``
describes a value that is known only when a session is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from common.config.settings import is_cluster
from common.data_table import rows

Profile = Literal["small", "cluster"]

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
WITHOUT_ROWS = "spark.sql.streaming.noDataMicroBatches.enabled"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SMALL_FILE = "spark.databricks.delta.optimize.minFileSize"
FULL_FILE = "spark.databricks.delta.optimize.maxFileSize"
LOGGED_VACUUM = "spark.databricks.delta.vacuum.logging.enabled"
CLASS_PATH = "spark.driver.extraClassPath"
JARS = "spark.jars"
LOADED: Mapping[Profile, tuple[str, str]] = {"small": (CLASS_PATH, ":"), "cluster": (JARS, ",")}
"""The setting by which a session loads its jars, and what separates its values."""

STREAMING_METRICS = "spark.sql.streaming.metricsEnabled"
WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
STATE_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
LOCAL_DIR = "spark.local.dir"
WAREHOUSE = "spark.sql.warehouse.dir"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
S3_LOG_STORE = "spark.delta.logStore.s3a.impl"
LEASE_OWNER = "spark.hadoop.medallion.lease.owner"
DRIVER_MEMORY = "spark.driver.memory"
UI = "spark.ui.enabled"
MASTER = "spark.master"
APP_NAME = "spark.app.name"
REDACTION = "spark.redaction.regex"
UMASK = "spark.hadoop.fs.permissions.umask-mode"

_UNEVEN = (
    "a query over two sources would have the watermark of the faster one, and rows of the slower one would "
    'be left out. A join says it for itself: within=Within(…, watermark_policy="max")'
)
_GONE = (
    "rows of files that are gone or damaged would be left out without an error, and the checkpoints would "
    "count them as read. Where a file is gone, medallion recover --plan says what can be done"
)
LOSES_ROWS: Mapping[str, tuple[str, str]] = {
    "spark.sql.files.ignoreMissingFiles": ("true", _GONE),
    "spark.sql.files.ignoreCorruptFiles": ("true", _GONE),
    WATERMARK_POLICY: ("max", _UNEVEN),
}
"""Values of settings with which Spark leaves out rows without an error, and what would be lost."""


def losing(conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of a configuration with which rows would be lost: the name, and the whole sentence."""
    for name, (value, lost) in LOSES_ROWS.items():
        if str(conf.get(name, "")).strip().lower() == value:
            yield name, f"{name} is {value}: {lost}. Take the setting out of spark.conf"


STATE_STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True, slots=True)
class OfRun:
    """A value that is known only when a session is built."""

    shown: str  # description of the value in ``docs/install/settings.md``


Value = str | OfRun | None


@dataclass(frozen=True, slots=True)
class Conf:
    """One Spark setting."""

    key: str  # name of the setting
    small: Value  # value on one machine; ``None`` keeps Spark's default
    cluster: Value  # value on a cluster; ``None`` keeps Spark's default
    why: str  # reason for the values, as shown in ``docs/install/settings.md``

    def of(self, profile: Profile) -> Value:
        """The value under a profile."""
        return self.small if profile == "small" else self.cluster


def profile_of(master: str) -> Profile:
    """The profile of a Spark master; ``local-cluster`` has separate executors, as any cluster has."""
    return "cluster" if is_cluster(master) else "small"


def values(profile: Profile, of_run: Mapping[str, str]) -> dict[str, str]:
    """The Spark settings that the engine sets under a profile.

    Args:
        of_run: A value for each setting that is declared as ``OfRun``; a setting without one is not set.

    Raises:
        AssertionError: ``of_run`` names a setting that is not declared as ``OfRun`` under this profile, and
            that ``docs/install/settings.md`` would therefore not list.
    """
    found: dict[str, str] = {}
    expected = set()
    for conf in ALL:
        value = conf.of(profile)
        if isinstance(value, OfRun):
            expected.add(conf.key)
            value = of_run.get(conf.key)
        if value is not None:
            found[conf.key] = value
    if unknown := of_run.keys() - expected:
        raise AssertionError(f"not in common.spark.session_conf for {profile!r}: {sorted(unknown)}")
    return found


def _read() -> Mapping[str, Sequence[Conf]]:
    groups: dict[str, list[Conf]] = {}
    for group, key, small, cluster, why in rows(__file__, "session_conf.tsv"):
        conf = Conf(key, _value(small), _value(small if cluster == "=" else cluster), why)
        groups.setdefault(group, []).append(conf)
    return groups


def _value(cell: str) -> Value:
    if cell.startswith(_OF_RUN):
        return OfRun(cell.removeprefix(_OF_RUN))
    return None if cell == "-" else cell


_OF_RUN = "run: "
_GROUPS = _read()

RELIED_ON = _GROUPS["relied_on"]
"""Results or guarantees depend on these settings."""

CHOSEN = _GROUPS["chosen"]
"""The engine's own settings, by Spark's names."""

COSTS = _GROUPS["costs"]
"""These settings change time, memory and file sizes, never a result."""

OURS = _GROUPS["ours"]
"""Settings that ``spark.conf`` cannot replace."""

ALL: Sequence[Conf] = (*RELIED_ON, *CHOSEN, *COSTS, *OURS)
"""All settings, each key once."""
