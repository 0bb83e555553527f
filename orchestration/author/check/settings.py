"""Settings that are missing, or cannot work on this machine, known before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from common.config.addresses import broker_fault
from common.config.kafka_option_names import misspelt
from common.config.settings import Settings
from common.declare import Avro, DeltaTable, Files, FileSink, KafkaSink, Pipeline, Protobuf
from common.declare.declared import source_of
from common.errors import Fault, Problem, closest
from common.spark.session_conf import losing

_SERVERS = "bootstrap.servers"


def doubtful_settings(pipeline: Pipeline | None, settings: Settings) -> tuple[Problem, ...]:
    """Settings that probably do not do what they are meant to; ``check`` names them, a start takes them."""
    return (*_unusable(settings), *_options(pipeline, settings), *_paths(pipeline, settings))


def setting_problems(pipeline: Pipeline, settings: Settings) -> tuple[Problem, ...]:
    """Settings that the pipeline needs and that are not set."""
    return tuple(_missing(pipeline, settings))


def _missing(pipeline: Pipeline, settings: Settings) -> Iterator[Problem]:
    values = [(f"{silver.table}, value", silver.value) for silver in pipeline.silver]
    for publish in pipeline.publish:
        if isinstance(publish.to, KafkaSink):
            values += [(f"{publish.table}, {part}", getattr(publish.to, part)) for part in ("key", "value")]
    for place, value in values:
        is_framed = isinstance(value, Avro | Protobuf) and value.framing == "registry"
        if is_framed and settings.silver.schema_registry is None:
            text = (
                'framing "registry" needs the setting silver.schema_registry: a registry\'s address, or a '
                f"folder of <id>.{'avsc' if isinstance(value, Avro) else 'desc'}"
            )
            yield Problem(place, Fault("MED-1504", text), source_of(value))


def _unusable(settings: Settings) -> Iterator[Problem]:
    """Folders and files of the settings that are not on this machine, and what a session refuses."""
    for name, text in losing(settings.spark.conf):
        yield Problem("settings", Fault("MED-1502", text), settings.origin_of("spark", "conf", name))
    home, ivy = settings.java_home, settings.jars.ivy_settings
    if home is not None and not (home / "bin" / "java").is_file():
        text = f"java_home is {str(home)!r}: there is no bin/java in it; leave it out to take the first found"
        yield Problem("settings", Fault("MED-1502", text), settings.origin_of("java_home"))
    if ivy is not None and not ivy.is_file():
        text = f"jars.ivy_settings is {str(ivy)!r}: there is no such file"
        yield Problem("settings", Fault("MED-1502", text), settings.origin_of("jars", "ivy_settings"))
    place = settings.silver.schema_registry
    if place is not None and (fault := _registry_fault(place)):
        text = f"silver.schema_registry is {place!r}: {fault}"
        yield Problem("settings", Fault("MED-1502", text), settings.origin_of("silver", "schema_registry"))


_S3 = "s3a"
_SCHEMES = frozenset(
    ("file", _S3, "hdfs", "viewfs", "webhdfs", "abfs", "abfss", "wasb", "wasbs", "gs", "oss", "cosn", "obs")
)
"""Schemes of URIs for which Spark, or a well-known jar, has a file system."""


def _paths(pipeline: Pipeline | None, settings: Settings) -> Iterator[Problem]:
    """Declared URIs with a scheme that Spark does not have."""
    if pipeline is None:
        return
    sinks = ((one.table, one, one.to) for one in pipeline.publish if isinstance(one.to, FileSink))
    for place, declared, one in (*((one.table, one, one) for one in _read(pipeline)), *sinks):
        scheme, is_uri, rest = one.path.partition("://")
        own = f"spark.hadoop.fs.{scheme}.impl"
        if not is_uri or scheme in _SCHEMES or own in settings.spark.conf:
            continue
        near = _S3 if scheme in {"s3", "s3n"} else closest(scheme, _SCHEMES)
        hint = f"did you mean '{near}://{rest}'?" if near else f"name its class in spark.conf.{own}"
        text = f"path {one.path!r} has a scheme for which Spark has no file system; {hint}"
        yield Problem(place, Fault("MED-1103", text), source_of(declared))


def _read(pipeline: Pipeline) -> Iterator[Files | DeltaTable]:
    yield from pipeline.files
    yield from pipeline.delta_tables


def _registry_fault(place: str) -> str:
    """Why no schemas can be at a place; empty if they can."""
    scheme, is_uri, rest = place.partition("://")
    if is_uri and scheme not in {"http", "https"}:
        return f"it is no address of HTTP; did you mean '{closest(scheme, ('http', 'https')) or 'http'}://{rest}'?"
    if not is_uri and not Path(place).is_dir():
        return "there is no such folder; an address begins with http:// or https://"
    return ""


def _options(pipeline: Pipeline | None, settings: Settings) -> Iterator[Problem]:
    for option, text in _option_faults(settings.kafka.options):
        origin = settings.origin_of("kafka", "options", option)
        yield Problem("settings", Fault("MED-1106", f"kafka.options: {text}"), origin)
    if pipeline is None:
        return
    sinks = [each.to for each in pipeline.publish if isinstance(each.to, KafkaSink)]
    named = [(f"Pipeline {pipeline.name!r}", pipeline), *((each.table, each) for each in pipeline.topics)]
    for place, declared in (*named, *(("KafkaSink", sink) for sink in sinks)):
        options: Mapping[str, str] = getattr(declared, "kafka", {})
        for _, text in _option_faults(options):
            yield Problem(place, Fault("MED-1106", text), source_of(declared))


def _option_faults(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for option, right in misspelt(options):
        yield option, f"{option!r} is no option of Kafka's clients; did you mean {right!r}?"
    servers = options.get(_SERVERS, "")
    if servers and not servers.startswith(("env:", "file:")) and (fault := broker_fault(servers)):
        yield _SERVERS, f"{_SERVERS}: {fault}"
