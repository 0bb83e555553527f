"""Settings: what differs between installations (addresses, paths, sizes, triggers), never logic.

Order of precedence: defaults < settings file (``medallion.yaml``) < file of the environment
(``medallion.dev.yaml`` with ``--env dev``) < variables (``MEDALLION_…``) < flags
(``--set bronze.trigger="5 seconds"``). An unknown key is an error that names the nearest known key.
No other module reads settings from variables.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariableError

from common.config.addresses import BrokerAddresses, ListenAddress, Master
from common.config.alert_settings import AlertSettings
from common.config.driver_limits import DriverLimits
from common.config.durations import Duration, seconds_of
from common.config.wrong_settings import PREFIX, Origins, explained
from common.declare.field_types import ByteSize
from common.declare.intervals import FOLLOW, following_trigger, own_trigger
from common.errors import Fault, Problem, SettingsError, nearest

SETTINGS_FILE = "medallion.yaml"

DEFAULT_ENV = "default"
"""Names, for ``--env`` and ``--sandbox``, the environment of ``medallion.yaml`` alone."""

_NAME = r"^[A-Za-z0-9_.-]*$"
"""What the names of environments and prefixes consist of: they are parts of paths and of topics."""


def _as_texts(given: object) -> object:
    """Numbers and booleans of YAML as text, as Kafka and Spark expect them."""
    if not isinstance(given, Mapping):
        return given
    return {
        key: str(value).lower() if isinstance(value, (bool, int, float)) else value
        for key, value in given.items()
    }


Options = Annotated[dict[str, str], BeforeValidator(_as_texts)]
Trigger = Annotated[
    str,
    BeforeValidator(own_trigger),
    Field(description="Interval between micro-batches; 'asap' starts the next one as soon as there is data."),
]
FollowingTrigger = Annotated[
    str,
    BeforeValidator(following_trigger),
    Field(
        description="'follow': a micro-batch starts as soon as a query of the same process has committed to "
        "a source table; a poll every 2 seconds finds commits of other processes. Or an interval between "
        "micro-batches; or 'asap', which polls without a pause."
    ),
]


def _without_login(text: str | None) -> str | None:
    if text is not None and "@" in text.partition("://")[2].partition("/")[0]:
        raise ValueError("a login does not belong in an address; name a variable in schema_registry_login")
    return text


def _data_mode(given: object) -> object:
    """YAML reads ``0750`` as the number that it is in octal."""
    text = f"{given:04o}" if isinstance(given, int) else str(given).strip().replace("o", "")
    if text == "umask" or re.fullmatch(r"0?7[0-7]{2}", text):
        return text
    raise ValueError(
        f"{text} are no permissions with which the engine can work; write '0700' (this user alone), '0750' "
        "(its group reads), '0755' (all read), or umask"
    )


DataMode = Annotated[str, BeforeValidator(_data_mode)]


def _catalog(given: object) -> object:
    if given == "unity":
        raise ValueError(
            "Unity Catalog is not supported: its open server could not be had for a test; write hive for a "
            "Hive metastore, session for the catalog of the job's Spark session, or none "
            "(docs/observe/catalog.md)"
        )
    return given


Catalog = Annotated[Literal["none", "session", "hive"], BeforeValidator(_catalog)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSettings(_Section):
    """The Kafka broker and its clients."""

    bootstrap_servers: BrokerAddresses = Field(
        default=None,
        description="host:port[,host:port…]; unset: the pipeline's own, else the embedded broker.",
    )
    options: Options = Field(
        default_factory=dict,
        description="Any Kafka client option, such as security.protocol; goes to every client. A secret may "
        "be a reference, env:NAME or file:/path.",
    )
    receipts_key: str | None = Field(
        default=None,
        description="The key that signs receipts of producers (HMAC-SHA256), as a reference, env:NAME or "
        "file:/path; unset: receipts need no signature.",
    )
    topic_prefix: str | None = Field(
        default=None,
        pattern=_NAME,
        description="Put before the names of the topics that are read; unset: the setting prefix.",
    )
    port: int = Field(default=0, ge=0, le=65535, description="Embedded broker's port; 0 takes a free one.")
    controller_port: int = Field(
        default=0, ge=0, le=65535, description="Port of the embedded broker's controller; 0 takes a free one."
    )
    heap_mb: int = Field(default=384, ge=128, description="Embedded broker's heap, MiB.")
    partitions: int = Field(default=2, ge=1, description="Partitions of a topic that the engine creates.")
    start_timeout_seconds: float = Field(
        default=60, gt=0, description="How long the embedded broker may take to start."
    )
    stop_timeout_seconds: float = Field(
        default=20, gt=0, description="How long the embedded broker may take to stop before it is killed."
    )


class BronzeSettings(_Section):
    """Kafka to bronze."""

    trigger: Trigger = "1 second"
    max_offsets_per_trigger: int = Field(
        default=200_000, ge=1, description="Records per micro-batch, all partitions."
    )
    min_partitions: int | None = Field(
        default=None, ge=1, description="Spark's minPartitions: splits large ranges."
    )
    checkpoints: str | None = Field(
        default=None,
        description="Where the checkpoints of this layer are; unset: as the setting checkpoints says.",
    )


class _FollowingSection(_Section):
    """What a layer has that reads tables of the pipeline."""

    trigger: FollowingTrigger = FOLLOW
    max_files_per_trigger: int = Field(
        default=200, ge=1, description="Files of a source table per micro-batch."
    )
    max_bytes_per_trigger: ByteSize | None = Field(
        default=None,
        description="Soft limit of bytes per micro-batch, such as 512m; unset: only files are limited.",
    )


class SilverSettings(_FollowingSection):
    """Bronze to silver."""

    schema_registry: Annotated[str | None, AfterValidator(_without_login)] = Field(
        default=None,
        description="Where schemas of framed Avro and Protobuf values are, of read and of published ones: "
        "a registry's http(s) address, or a folder of <id>.avsc and <id>.desc files.",
    )
    schema_registry_login: str | None = Field(
        default=None,
        pattern=r"^(?:(?:env:)?[A-Za-z_][A-Za-z0-9_]*|file:/.+)$",
        description="Where the registry's login is, which is user:password, or Bearer and a token: env:NAME "
        "or NAME, an environment variable; file:/path, a file.",
    )
    first_load: str = Field(
        default="auto",
        pattern="^(auto|log|snapshot)$",
        description="How a new table is filled: log replays bronze's commits from the first; snapshot loads "
        "bronze as it is, by event time; auto replays if the log is complete.",
    )
    first_load_rows: int = Field(
        default=1_000_000, ge=1, description="Rows of bronze per commit of a load from a snapshot."
    )

    accept_changes: tuple[str, ...] = Field(
        default=(),
        description="Commits of other programs in bronze, as bronze.orders@17: changes of rows, to be "
        "skipped, and appended rows, to be read.",
    )
    checkpoints: str | None = Field(
        default=None,
        description="Where the checkpoints of this layer are; unset: as the setting checkpoints says.",
    )


class GoldSettings(_FollowingSection):
    """Silver to gold."""

    checkpoints: str | None = Field(
        default=None,
        description="Where the checkpoints of this layer and of publications are; unset: as the setting "
        "checkpoints says.",
    )
    compact_every: int = Field(
        default=100,
        ge=0,
        description="Micro-batches after which a query compacts the tables it writes; 0: never.",
    )
    accept_changed: tuple[str, ...] = Field(
        default=(),
        description="Tables that keep the rows of an earlier, different declaration: gold.orders.",
    )
    accept_commits: tuple[str, ...] = Field(
        default=(),
        description="Commits of other programs: rows appended to a table that gold reads, to be read as they "
        "are (silver.orders@17); changes of a gold table, which the audit then leaves out (gold.latest@9).",
    )


_DRIVER_ROWS = 100_000
"""Most rows of a micro-batch that the driver of one machine computes."""


def is_cluster(master: str) -> bool:
    """Whether a Spark master has executors in other processes; ``local-cluster`` has them too."""
    return not master.startswith("local") or master.startswith("local-cluster")


class DriverSettings(_Section):
    """Limits up to which a micro-batch is computed and written in the driver, without a Spark job."""

    batch_rows: int | None = Field(
        default=None,
        ge=0,
        description="Most rows of a micro-batch that the driver computes; 0: Spark computes all; unset: "
        "100,000 on one machine, 0 on a cluster.",
    )
    batch_mb: int = Field(default=64, ge=1, le=64, description="Most MiB of those rows in memory, per query.")
    file_rows: int = Field(
        default=2_000_000,
        ge=0,
        description="Most rows in local files that the driver reads for the keys of a micro-batch.",
    )


class QualitySettings(_Section):
    """Data-quality suites."""

    engine: Literal["auto", "duckdb", "spark"] = Field(
        default="auto",
        description="What evaluates suites: duckdb in the command's process, or spark; auto: duckdb for "
        "local tables up to duckdb_mb. With duckdb, no command starts Spark for a suite: pandas "
        "evaluates in memory what has no short form.",
    )
    duckdb_mb: int = Field(
        default=20_000, ge=0, description="Most MiB of a table's files that engine auto gives to DuckDB."
    )
    gate_interval: Duration = Field(
        default="30 seconds",
        description="Least time between two evaluations of a gate; and at least ten times as long as the "
        "last evaluation took.",
    )


def _packages(given: dict[str, str]) -> dict[str, str]:
    for coordinate, sha256 in given.items():
        if not re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", coordinate):
            raise ValueError(f"{coordinate!r} is no coordinate; write group:artifact:version")
        if not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
            raise ValueError(
                f"{coordinate} needs its sha256, 64 hexadecimal digits; to have it: sha256sum of the jar"
            )
    files = Counter("-".join(coordinate.split(":")[1:]) for coordinate in given)
    if twice := [name for name, count in files.items() if count > 1]:
        raise ValueError(f"{twice[0]}.jar is the file of two coordinates; leave one of them out")
    return {coordinate: sha256.lower() for coordinate, sha256 in given.items()}


class SparkSettings(_Section):
    """The Spark session of the jobs."""

    master: Master = Field(default="local[*]", description="Spark's master: local[*], or that of a cluster.")
    driver_memory: ByteSize = Field(
        default="2g", description="Heap of the driver; with local[*] the driver does all the work."
    )
    shuffle_partitions: int = Field(
        default=2,
        ge=1,
        description="State partitions of a stateful query, fixed at its first start (see below).",
    )
    fsync: bool = Field(
        default=True,
        description="On a local disk: a commit waits until it is flushed, so that a power cut loses none.",
    )
    state_store: str = Field(
        default="rocksdb", pattern="^(rocksdb|memory)$", description="rocksdb or memory."
    )
    ui: bool = Field(default=False, description="Spark's web UI, on loopback.")
    conf: Options = Field(
        default_factory=dict,
        description="Any other Spark setting; takes precedence over the engine's. A secret may be a "
        "reference, env:NAME or file:/path.",
    )
    packages: Annotated[dict[str, str], AfterValidator(_packages)] = Field(
        default_factory=dict,
        description="Jars of connectors, group:artifact:version with the sha256 of each; fetched once and "
        "compared at every use, as the engine's own. What a jar needs is not fetched by itself: name it too.",
    )


class SupervisionSettings(_Section):
    """Restarts of queries that failed for a cause that passes: broker, registry, object store, conflict."""

    first_pause: Duration = Field(
        default="1 second", description="Pause before the first restart of a query."
    )
    longest_pause: Duration = Field(
        default="1 minute", description="Longest pause; each failure in a row doubles the pause up to it."
    )
    restarts_per_hour: int = Field(
        default=60,
        ge=1,
        description="Restarts of a query within an hour, those of one outage counted once; more wait.",
    )
    give_up_after: Duration = Field(
        default="24 hours",
        description="How long a query may fail in a row before it is restarted no more; a query that "
        "processes available data and ends gives up after 2 minutes.",
    )
    fail_fast: bool = Field(
        default=False,
        description="End the run at the first failure of a query, whatever its cause; --fail-fast.",
    )


class MaintenanceSettings(_Section):
    """Maintenance of the tables by the jobs that write them, between micro-batches."""

    cpu_share: float = Field(
        default=0.1,
        ge=0,
        le=0.5,
        description="Largest share of the time in which a running job compacts its tables and deletes their "
        "old files; 0: never, and no record expires.",
    )
    small_files: int = Field(
        default=20, ge=2, description="Number of small files of about one size that are compacted into one."
    )
    delete_every: Duration = Field(
        default="1 day",
        description="How often a running job deletes the files of a table that no version within the table's "
        "retention and no query needs any more, and bronze's expired records (Topic.keep).",
    )


class HistorySettings(_Section):
    """The history of micro-batches: the table ``ops.micro_batches``."""

    interval_seconds: float = Field(
        default=30, ge=0, description="Seconds between two writes of the history; 0: no history."
    )
    keep: Duration = Field(default="14 days", description="How long a micro-batch stays in the history.")


def _port_as_text(value: object) -> object:
    """YAML reads a port alone as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class HttpSettings(_Section):
    """The page, metrics and health of a job, by HTTP."""

    address: Annotated[ListenAddress, BeforeValidator(_port_as_text)] = Field(
        default=None,
        description="host:port to listen at, such as 127.0.0.1:8484; a port alone is loopback, port 0 takes "
        "a free one; unset: nothing listens. There is no login: put a proxy before other hosts' access.",
    )
    freshness_goal: Duration = Field(
        default="10 minutes",
        description="/readyz fails while a record waits longer than this to be in gold.",
    )

    spark_metrics: bool = Field(
        default=False, description="Whether /metrics has Spark's own metrics of its streaming queries too."
    )
    show_records: bool = Field(
        default=True,
        description="Whether the page shows the payloads of quarantined records, escaped, the search for a "
        "record by its key, which has values of gold rows, and messages of errors, which have no values of "
        "records but the texts of Spark and Python.",
    )

    @property
    def goal_seconds(self) -> float:
        """``freshness_goal`` in seconds."""
        return seconds_of(self.freshness_goal)


class LogSettings(_Section):
    """The log files of the jobs."""

    format: str = Field(
        default="text",
        pattern="^(text|json)$",
        description="json: one JSON object per line, of Python, of Spark's JVM and on stderr.",
    )
    exception_messages: bool = Field(
        default=False,
        description="Whether JSON logs of Python have the messages of exceptions, which may quote a value.",
    )


class LineageSettings(_Section):
    """Events of lineage for other platforms."""

    openlineage: dict[str, Any] | None = Field(
        default=None,
        description="OpenLineage's transport as openlineage-python takes it, such as {type: http, url: "
        '"http://host:5000"}; unset: no events. A secret may be a reference, env:NAME or file:/path.',
    )
    namespace: str = Field(
        default="medallion", min_length=1, description="Namespace of the queries in OpenLineage events."
    )
    interval_seconds: float = Field(
        default=60, ge=1, description="Fewest seconds between two RUNNING events of a query."
    )


class JarSettings(_Section):
    """The locked jars."""

    cache_dir: Path | None = Field(
        default=None, description="Folder of the jars; unset: medallion/jars in the user's cache folder."
    )
    ivy_settings: Path | None = Field(default=None, description="Your own ivysettings.xml, for a mirror.")
    s3: bool = Field(
        default=False,
        description="Fetch and load the jars of S3 also where no table and no checkpoint is on s3a://, for "
        "files that a pipeline reads from there.",
    )


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    pipeline: Path | None = Field(default=None, description="The pipeline file; -p on the command line.")
    env: str | None = Field(
        default=None,
        pattern=_NAME,
        description="The environment, or --env: the file medallion.<env>.yaml is laid over medallion.yaml.",
    )
    prefix: str | None = Field(
        default=None,
        pattern=_NAME,
        description="Put before the pipeline's folder of tables and checkpoints, and before topics; unset: "
        "<env>_ in an environment, else nothing.",
    )
    sandbox: str | None = Field(
        default=None,
        pattern=_NAME,
        description="An environment whose bronze tables are read, or --sandbox; silver and gold tables of "
        "its own are written.",
    )
    data_dir: Path = Field(
        default=Path("data"),
        description="Local folder of the broker, logs and leases; by default also of tables and checkpoints.",
    )
    warehouse: str | None = Field(
        default=None, description="Where tables are: a folder or an object store's URI; unset: in data_dir."
    )
    checkpoints: str | None = Field(default=None, description="Where checkpoints are; unset: in data_dir.")
    catalog: Catalog = Field(
        default="none",
        description="Where tables are registered by name, with columns and comments: in the catalog of the "
        "job's Spark session, or in a Hive metastore; beside the queries, which never wait for it.",
    )
    data_mode: DataMode = Field(
        default="0700",
        description="Permissions of new folders of data_dir, local tables and checkpoints; files have the "
        "same without x. umask: those of the process's umask.",
    )
    java_home: Path | None = Field(
        default=None, description="Home of a Java 17 or 21; unset: the first one found."
    )
    stop_timeout_seconds: float = Field(
        default=60, gt=0, description="How long a stop waits for a micro-batch boundary."
    )
    lease_seconds: float = Field(
        default=60,
        ge=3,
        description="How long the lease of a table on s3a:// lasts after its last renewal; a job renews it "
        "three times as often. After a crash another host may write the table when this time is over.",
    )
    min_free_mb: int = Field(
        default=256,
        ge=0,
        description="Free space in MiB that the disks of tables, checkpoints and data_dir must have before a "
        "query begins a micro-batch; with less it waits, says so, and goes on by itself. 0: not looked at.",
    )
    kafka: KafkaSettings = KafkaSettings()
    bronze: BronzeSettings = BronzeSettings()
    silver: SilverSettings = SilverSettings()
    gold: GoldSettings = GoldSettings()
    driver: DriverSettings = DriverSettings()
    quality: QualitySettings = QualitySettings()
    spark: SparkSettings = SparkSettings()
    supervision: SupervisionSettings = SupervisionSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    jars: JarSettings = JarSettings()
    history: HistorySettings = HistorySettings()
    http: HttpSettings = HttpSettings()
    alerts: AlertSettings = AlertSettings()
    log: LogSettings = LogSettings()
    lineage: LineageSettings = LineageSettings()

    _source: Settings | None = PrivateAttr(default=None)
    _origins: Origins = PrivateAttr(default_factory=Origins)

    @property
    def sandbox_source(self) -> Settings | None:
        """The settings of the environment whose bronze tables a sandbox reads; None outside of a sandbox."""
        return self._source

    def origin_of(self, *names: str) -> str:
        """Where a setting is set: ``medallion.yaml:3:5``, a variable, or ``flag``."""
        return self._origins.of(names)

    @property
    def own_prefix(self) -> str:
        """The prefix of the environment: that of its topics and, outside of a sandbox, of its tables."""
        if self.prefix is not None:
            return self.prefix
        return f"{self.env}_" if self.env is not None else ""

    @property
    def storage_places(self) -> tuple[str, ...]:
        """The folders and URIs of tables and checkpoints that are set."""
        layers = (self.bronze.checkpoints, self.silver.checkpoints, self.gold.checkpoints)
        return tuple(one for one in (self.warehouse, self.checkpoints, *layers) if one is not None)

    @property
    def table_prefix(self) -> str:
        """The prefix of the pipeline's folder of tables and checkpoints."""
        return self.own_prefix + (f"sandbox_{self.sandbox}_" if self.sandbox is not None else "")

    @property
    def topic_prefix(self) -> str:
        """The prefix of the topics that are read."""
        if self._source is not None:
            return self._source.topic_prefix
        return self.own_prefix if self.kafka.topic_prefix is None else self.kafka.topic_prefix

    def outside_of_environments(self) -> Settings:
        """The same settings without environment, prefix and sandbox."""
        kafka = self.kafka.model_copy(update={"topic_prefix": None})
        plain = {"env": None, "prefix": None, "sandbox": None, "kafka": kafka}
        copy = self.model_copy(update=plain)
        copy._source = None  # noqa: SLF001  # pydantic's own attribute of this class
        return copy

    @property
    def umask(self) -> int | None:
        """The umask that gives new folders ``data_mode``; None: the process's own."""
        return None if self.data_mode == "umask" else 0o777 & ~int(self.data_mode, 8)

    def with_master(self, master: str) -> Settings:
        """These settings with the master that Spark has: `spark-submit` may have named another one."""
        return self.model_copy(update={"spark": self.spark.model_copy(update={"master": master})})

    @property
    def driver_limits(self) -> DriverLimits:
        """The limits up to which the driver computes, reads and writes rows itself."""
        rows = self.driver.batch_rows
        if rows is None:
            rows = 0 if is_cluster(self.spark.master) else _DRIVER_ROWS
        return DriverLimits(
            rows,
            self.driver.file_rows,
            batch_bytes=self.driver.batch_mb * 2**20,
            fsync=self.spark.fsync,
        )

    @classmethod
    def settings_customise_sources(  # pydantic's hook: first source wins
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _FileSource(settings_cls)


class _FileSource(PydanticBaseSettingsSource):
    """The settings files, below variables and flags."""

    content: Mapping[str, Any] = MappingProxyType({})

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise AssertionError("unreachable: __call__ reads the whole file")

    def __call__(self) -> dict[str, Any]:
        return dict(type(self).content)


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The content of two files; where both have a section, key by key."""
    both = {
        key: _overlaid(below[key], value)
        for key, value in above.items()
        if isinstance(value, Mapping) and isinstance(below.get(key), Mapping)
    }
    return {**below, **above, **both}


def _environment_file(path: Path | None, env: str) -> Path:
    """The file of an environment, beside the settings file: ``medallion.dev.yaml``."""
    if not re.fullmatch(_NAME.replace("*", "{1,100}"), env):
        raise SettingsError(f"environment {env!r}: a name has at most 100 letters, digits, '_', '.' and '-'.")
    base = path if path is not None else Path(SETTINGS_FILE)
    file = base.with_name(f"{base.stem}.{env}{base.suffix}")
    if not file.is_file():
        others = base.parent.glob(f"{base.stem}.*{base.suffix}")
        known = [other.name.removeprefix(f"{base.stem}.").removesuffix(base.suffix) for other in others]
        raise SettingsError(
            f"environment {env}: {file} does not exist; {nearest(env, known)}. Create the file with what "
            "differs there; it may be empty."
        )
    return file


def _unreadable(where: Path | str, text: str) -> SettingsError:
    return SettingsError.of([Problem("settings", Fault("MED-1503", text), str(where))])


class _OneValueEach(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Refuses a key that a section has twice, of which YAML's loader takes the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # as PyYAML has it
        known = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in known:
                problem = f"{key.value!r} stands here a second time; keep one of them"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            known |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
        section: dict[Any, Any] = super().construct_mapping(node, deep)
        return section


def _read_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _OneValueEach)  # noqa: S506  # a SafeLoader
    except OSError as error:
        text = f"cannot be read ({error.strerror}). Name a file that exists with --settings."
        raise _unreadable(path, text) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise _unreadable(where, f"not valid YAML ({getattr(error, 'problem', error)}).") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _unreadable(path, f"expected 'key: value' lines, found a {type(content).__name__}.")
    try:
        place = next(_other_keys(content), None)
    except RecursionError as error:
        raise _unreadable(path, "an alias refers to the section that it is in; remove it.") from error
    if place is not None:
        text = f"{place} is no name of a setting; write names as text, in quotes if need be."
        raise _unreadable(path, text)
    return {key: value for key, value in content.items() if value is not None}


def _other_keys(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """Keys that are no text, such as ``null`` or ``1``, with the section that they are in."""
    for key, value in tree.items():
        if not isinstance(key, str):
            yield f"{prefix}{key}"
        elif isinstance(value, Mapping):
            yield from _other_keys(value, f"{prefix}{key}.")


def load_settings(
    *, file: Path | None = None, overrides: Sequence[str] = (), flags: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from all sources.

    Args:
        file: The settings file; unset: ``medallion.yaml`` in the current folder, if it exists.
        overrides: ``key.sub=value`` texts, as ``--set`` takes them; values are read as YAML.
        flags: Top-level settings that have their own flag; ``None`` values are ignored.

    Raises:
        SettingsError: A key is unknown (the nearest one is named), or a value does not fit.
    """
    path = file if file is not None else Path(SETTINGS_FILE)
    if file is None and not path.exists():
        path = None  # type: ignore[assignment]
    _refuse_unknown_variables()
    init: dict[str, Any] = {}
    for text in overrides:
        _set_override(init, text)
    init.update({key: value for key, value in (flags or {}).items() if value is not None})
    files = [(path, _read_file(path))]
    env = _chosen("env", init, files[0][1])
    if env is not None:
        overlay = _environment_file(path, env)
        files.append((overlay, _read_file(overlay)))
    settings = _validated(files, {**init, "env": env, "sandbox": _chosen("sandbox", init, files[0][1])})
    if (name := _chosen_sandbox(settings)) is not None:
        settings._source = _sandbox_source(path, name)  # noqa: SLF001  # of this module's class
    return settings


def _chosen(name: str, init: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
    """The name of an environment, from a flag, a variable or the settings file; None for the default one."""
    found = init.get(name) or os.environ.get(f"{PREFIX}{name.upper()}") or content.get(name)
    is_default = name == "env" and found == DEFAULT_ENV
    return None if found is None or is_default else str(found)


def _chosen_sandbox(settings: Settings) -> str | None:
    """The environment whose bronze tables are read."""
    if settings.sandbox is not None and settings.sandbox == (settings.env or DEFAULT_ENV):
        own = "" if settings.env is None else f"--env {settings.env} "
        raise SettingsError(
            f"sandbox {settings.sandbox}: a sandbox of the environment itself. Name the environment whose "
            f"bronze is to be read, and another one to write in: medallion {own}--env NAME "
            f"--sandbox {settings.sandbox}"
        )
    return settings.sandbox


def _sandbox_source(path: Path | None, name: str) -> Settings:
    """The settings of the environment whose bronze tables a sandbox reads; flags do not change them."""
    files = [(path, _read_file(path))]
    if name != DEFAULT_ENV:
        overlay = _environment_file(path, name)
        files.append((overlay, _read_file(overlay)))
    return _validated(files, {"env": None if name == DEFAULT_ENV else name, "sandbox": None})


def _validated(files: Sequence[tuple[Path | None, Mapping[str, Any]]], init: Mapping[str, Any]) -> Settings:
    """The settings of files, variables and flags; the later file wins."""
    content: dict[str, Any] = {}
    for _, each in files:
        content = _overlaid(content, each)
    _FileSource.content = content
    try:
        settings = Settings(**init)
    except UnreadableVariableError as error:
        raise SettingsError(
            f"environment: {error}; write JSON there, or one variable per setting."
        ) from error
    except ValidationError as error:
        raise SettingsError.of(explained(error, Origins(files, init), setting_names())) from error
    finally:
        _FileSource.content = MappingProxyType({})
    settings._origins = Origins(files, init)  # noqa: SLF001  # of this module's class
    return settings


def _set_override(tree: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"--set {text}: write it as key=value, such as --set bronze.trigger='5 seconds'.")
    *parents, leaf = key.strip().split(".")
    if {"options", "conf"} & set(parents):
        section = next(i for i, name in enumerate(parents) if name in {"options", "conf"})
        parents, leaf = parents[: section + 1], ".".join([*parents[section + 1 :], leaf])
        tree_value: Any = value
    else:
        try:
            tree_value = yaml.safe_load(value) if value else value
        except yaml.YAMLError as error:
            raise SettingsError(f"--set {key}: its value is not valid YAML; put it in quotes.") from error
    for name in parents:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise SettingsError(
                f"--set {key}: {name} already has a single value; set either {name} or the settings below it."
            )
    tree[leaf] = tree_value


def setting_names(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[str]:
    """Dotted names of all settings and sections."""
    for name, field in model.model_fields.items():
        yield prefix + name
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from setting_names(kind, f"{prefix}{name}.")


_FREE = ("KAFKA__OPTIONS", "SPARK__CONF", "ALERTS__CHANNELS", "ALERTS__RULES")
"""Settings whose keys are the user's own."""


def _refuse_unknown_variables() -> None:
    known = {PREFIX + name.upper().replace(".", "__") for name in setting_names()}
    for variable in sorted(os.environ):
        if variable.startswith(PREFIX) and variable not in known:
            if any(variable.startswith(f"{PREFIX}{free}__") for free in _FREE):
                continue
            raise SettingsError(f"environment: {variable} is not a setting; {nearest(variable, known)}")
