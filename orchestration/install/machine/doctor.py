"""Examines this machine and reports findings. Nothing is fetched, started or changed.

A probe that fails is a finding too, so that one fault never hides the others.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common.config.paths import broker_dir
from common.config.references import plain_secrets
from common.config.settings import Settings
from common.errors import JavaError, MedallionError
from common.java import jar_cache
from common.java.compile_sources import jar_file
from common.java.find_java import find_java
from common.java.jar_lock import jar_sets
from common.java.sealed_file import state_of
from common.machine.extras import EXTRAS, install, missing
from common.machine.processes import describe_listener, is_port_free
from common.spark.class_archive import archive_file
from common.spark.temporary_files import loading_fault
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka.connectivity import ProbeResult, probe_broker

State = Literal["ok", "warn", "fail"]

LOCK = Path(__file__).resolve().parents[3] / "requirements.lock"
PACKAGES = ("pyspark", "delta-spark", "confluent-kafka", "duckdb", "deltalake")
TESTED_TOGETHER = ("pyspark", "delta-spark")
"""Packages of which another version than the locked one is doubtful; of the others an older one is."""
_WITHIN = __name__.rpartition("orchestration.")[0]
"""``medallion.`` in a wheel, empty in a checkout."""

_AGAIN = "Install medallion again: pip install " + (
    "--force-reinstall --no-deps, and its wheel" if _WITHIN else "--no-deps -e ."
)

OURS = tuple(_WITHIN + folder for folder in ("common", "bronze", "silver", "gold", "orchestration"))
EAGER_SETS = ("spark", "kafka-server")
"""Jar sets that every run needs; a run fetches another set only if its pipeline uses the set."""

SCARCE_GB, NONE_GB = 5.0, 1.0
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    area: str  # the group of the finding: versions, java, jars …
    name: str  # the examined thing
    state: State  # ok, warn (works, with a caveat) or fail (a run would fail)
    value: str  # the result
    advice: str = ""  # what to do; empty if nothing is to be done


Probe = Callable[[Settings], Iterable[Finding]]


def examine(settings: Settings) -> Iterator[Finding]:
    """All findings, one at a time; the last probes may take some seconds."""
    for area, probe in PROBES.items():
        try:
            yield from probe(settings)
        except MedallionError as error:
            yield Finding(area, area, "fail", str(error))
        except Exception as error:  # noqa: BLE001  # a probe's own fault must not hide what the others see
            yield Finding(area, area, "fail", f"could not be examined ({type(error).__name__}: {error})")


def _versions(settings: Settings) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    supported = (3, 11) <= sys.version_info[:2] <= (3, 13)
    advice = "" if supported else "Use Python 3.11, 3.12 or 3.13."
    yield Finding(
        "versions", "python", "ok" if supported else "fail", f"{version} ({sys.executable})", advice
    )
    pins = _pins()
    for name in PACKAGES:
        yield _package(name, pins.get(name))
    yield from map(_extra, EXTRAS)
    try:
        yield Finding("versions", "medallion", "ok", importlib.metadata.version("medallion-lakehouse"))
    except importlib.metadata.PackageNotFoundError:
        yield Finding("versions", "medallion", "ok", "from source, not installed")


def _package(name: str, pin: str | None) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        advice = f"pip install {name}=={pin}" if pin else f"pip install {name}"
        return Finding("versions", name, "fail", "not installed", advice)
    if pin and version != pin and (name in TESTED_TOGETHER or _release(version) < _release(pin)):
        advice = f"{pin} is the version tested with the other packages: pip install {name}=={pin}"
        return Finding("versions", name, "warn", f"{version}, locked is {pin}", advice)
    return Finding("versions", name, "ok", version)


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, which compare as versions do."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _extra(extra: str) -> Finding:
    """What is not installed is no fault: an error names it where it is used."""
    if modules := missing(extra):
        value = f"not installed ({', '.join(modules)}); where it is used: {install(extra)}"
        return Finding("versions", f"extra {extra}", "ok", value)
    return Finding("versions", f"extra {extra}", "ok", "installed")


def _pins() -> dict[str, str]:
    if not LOCK.is_file():
        return {}
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", LOCK.read_text(), re.MULTILINE))


def _java(settings: Settings) -> Iterator[Finding]:
    java = find_java(settings)
    yield Finding("java", "java", "ok", f"Java {java.version} in {java.home} (found by: {java.origin})")


def _jars(settings: Settings) -> Iterator[Finding]:
    for name in (*jar_sets(), *([jar_cache.PACKAGES] if settings.spark.packages else [])):
        states = Counter(state for _, state in jar_cache.verify(settings, name))
        total = states.total()
        if states["altered"]:
            value = f"{states['altered']} of {total} altered or truncated"
            yield Finding("jars", name, "fail", value, f"medallion jars fetch --set-name {name}")
        elif not states["missing"]:
            yield Finding("jars", name, "ok", f"{total} verified")
        elif name in {*EAGER_SETS, jar_cache.PACKAGES}:
            value = f"{states['missing']} of {total} not fetched yet"
            yield Finding("jars", name, "warn", value, "medallion setup, or the first run fetches them")
        else:
            yield Finding("jars", name, "ok", "not fetched; the first pipeline that uses it fetches it")
    yield _built_file("value reader", jar_file(settings))
    with contextlib.suppress(JavaError):  # which is a finding of its own
        jars = jar_cache.jars_of(settings, *jar_cache.session_sets(settings))
        class_path = [*(jar_cache.jar_path(settings, jar) for jar in jars), jar_file(settings)]
        yield _built_file("class archive", archive_file(find_java(settings), class_path))


def _built_file(name: str, file: Path) -> Finding:
    """A file that set-up builds, verified by the sha256 that set-up wrote beside it."""
    state = state_of(file)
    if state == "altered":
        return Finding(
            "jars", name, "warn", f"{file} is cut short or changed", "medallion setup builds it again"
        )
    if state == "missing":
        return Finding("jars", name, "ok", "not built yet; medallion setup builds it")
    return Finding("jars", name, "ok", "verified")


def _pipeline(settings: Settings) -> Iterator[Finding]:
    if settings.pipeline is None:
        return
    try:
        pipeline = load_pipeline(settings.pipeline)
    except MedallionError as error:
        yield Finding("pipeline", str(settings.pipeline), "fail", str(error), "medallion check")
        return
    yield Finding("pipeline", pipeline.name, "ok", f"{len(pipeline.tables)} tables, {settings.pipeline}")


def _embedded(settings: Settings) -> Iterator[Finding]:
    # Imported here, because the doctor must also work if Kafka's client cannot be imported.
    from orchestration.access.embedded_broker.lifecycle import describe

    facts = describe(settings) or {"alive": False}
    yield _broker(facts, broker_dir(settings))
    own = {facts["port"], facts["controller_port"]} if facts["alive"] else set()
    for name in ("port", "controller_port"):
        port = getattr(settings.kafka, name)
        if port:
            yield _port(f"kafka.{name}", port, own)


def _broker(facts: Mapping[str, Any], folder: Path) -> Finding:
    if not facts["alive"]:
        return Finding("kafka", "embedded broker", "ok", f"not running (its folder: {folder})")
    where = f"{facts['bootstrap_servers']} (pid {facts['pid']}, Kafka {facts['kafka_version']})"
    if facts["answering"]:
        return Finding("kafka", "embedded broker", "ok", f"{where}, since {facts['started_at']}")
    advice = f"Its log shows why: {facts['log']}. The next run that needs a broker replaces it."
    return Finding("kafka", "embedded broker", "fail", f"{where} does not answer", advice)


def _port(name: str, port: int, own: Container[object]) -> Finding:
    if is_port_free(port):
        return Finding("kafka", name, "ok", f"{port} is free")
    if port in own:
        return Finding("kafka", name, "ok", f"{port} is the embedded broker's")
    advice = f"Stop that process, or choose another with --set {name}=… (0 takes a free one)."
    return Finding("kafka", name, "fail", f"{port} is taken by {describe_listener(port)}", advice)


def _secrets(settings: Settings) -> Iterator[Finding]:
    if named := sorted(plain_secrets(settings.model_dump(mode="json", exclude_unset=True))):
        advice = "Write env:NAME or file:/path there, and the secret where it says."
        yield Finding("settings", "secrets", "warn", f"held by {', '.join(named)}", advice)


def _libraries(settings: Settings) -> Iterator[Finding]:
    """Whether a native library can be loaded where a run unpacks it: on the disk of the data."""
    folder = settings.data_dir.resolve()
    nearest = next(path for path in (folder, *folder.parents) if path.is_dir())
    if (why := loading_fault(nearest)) is None:
        yield Finding("disk", "libraries", "ok", f"can be loaded from {nearest}")
    else:
        advice = "Set data_dir to a folder of another disk, or mount it without noexec."
        yield Finding("disk", "libraries", "fail", f"cannot be loaded from {nearest}: {why}", advice)


def _named_broker(settings: Settings) -> Iterator[Finding]:
    options: dict[str, str] = {}
    if settings.pipeline is not None and not settings.kafka.bootstrap_servers:
        options.update(load_pipeline(settings.pipeline).kafka)
    options.update(settings.kafka.options)
    servers = settings.kafka.bootstrap_servers or options.get("bootstrap.servers")
    if not servers:
        yield Finding("kafka", "broker", "ok", "none named: a run that needs one starts the embedded broker")
        return
    answer: ProbeResult = probe_broker(servers, options, PATIENCE_SECONDS)
    if answer.fault:
        advice = "Check kafka.bootstrap_servers and kafka.options (security.protocol …), and that it is up."
        yield Finding("kafka", "broker", "fail", f"{servers}: {answer.fault}", advice)
    else:
        value = (
            f"{servers} answers in {answer.seconds:.1f} s: {answer.brokers} brokers, {answer.topics} topics"
        )
        yield Finding("kafka", "broker", "ok", value)


def _disk(settings: Settings) -> Iterator[Finding]:
    for name, folder in (
        ("data_dir", settings.data_dir.resolve()),
        ("jar cache", jar_cache.cache_dir(settings)),
    ):
        nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free_gb = shutil.disk_usage(nearest).free / 1e9
        state: State = "fail" if free_gb < NONE_GB else "warn" if free_gb < SCARCE_GB else "ok"
        advice = "" if state == "ok" else f"Make room, or choose another folder ({name})."
        yield Finding("disk", name, state, f"{free_gb:.1f} GB free in {folder}", advice)


def _imports(settings: Settings) -> Iterator[Finding]:
    roots: dict[str, Path | None] = {}
    for name in OURS:
        spec = importlib.util.find_spec(name)
        roots[name] = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
    usual = Counter(roots.values()).most_common(1)[0][0]
    if None not in roots.values() and len(set(roots.values())) == 1:
        yield Finding("packages", "imported from", "ok", f"{usual} ({', '.join(OURS)})")
        return
    for name, root in roots.items():
        if root is None:
            yield Finding(
                "packages",
                name,
                "fail",
                "cannot be imported",
                _AGAIN,
            )
        elif root != usual:
            advice = (
                "Another package of this name comes first on Python's path: use an environment of its own."
            )
            yield Finding("packages", name, "warn", f"{root}, most others are in {usual}", advice)
        else:
            yield Finding("packages", name, "ok", str(root))


PROBES: dict[str, Probe] = {
    "versions": _versions,
    "java": _java,
    "jars": _jars,
    "packages": _imports,
    "disk": _disk,
    "libraries": _libraries,
    "pipeline": _pipeline,
    "embedded broker": _embedded,
    "broker": _named_broker,
    "secrets": _secrets,
}
