"""The pipeline of an environment: topics have the environment's prefix; a sandbox publishes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.config.settings import Settings
from common.declare import FileSink, KafkaSink, Pipeline, Publish, Topic
from common.declare.declared import copy_with
from common.errors import UsageError


def in_environment(pipeline: Pipeline, settings: Settings) -> Pipeline:
    """The pipeline with the topics that it reads and writes in the environment of the settings.

    Topics that it reads have the prefix of the setting ``kafka.topic_prefix``, topics and folders that it
    publishes to that of ``prefix``. In a sandbox nothing is published.
    """
    publish = [] if settings.sandbox_source is not None else list(pipeline.publish)
    if settings.own_prefix:
        publish = [_prefixed_sink(each, settings.own_prefix) for each in publish]
    changes: dict[str, Any] = {}
    if settings.topic_prefix:
        changes["bronze"] = [
            _prefixed_topic(one, settings.topic_prefix) if isinstance(one, Topic) else one
            for one in pipeline.bronze
        ]
    if publish != list(pipeline.publish):
        changes["publish"] = publish
    return copy_with(pipeline, **changes) if changes else pipeline


def refuse_in_sandbox(settings: Settings, command: str) -> None:
    """Refuse a command that writes what a sandbox only reads.

    Raises:
        UsageError: The settings are those of a sandbox.
    """
    if settings.sandbox_source is not None:
        raise UsageError(
            f"medallion {command} writes to the topics of environment {settings.sandbox}, which a sandbox "
            "only reads. Leave --sandbox out."
        )


def _prefixed_topic(topic: Topic, prefix: str) -> Topic:
    changes: dict[str, Any] = {}
    if topic.pattern is not None:
        changes["pattern"] = prefix.replace(".", r"\.") + f"(?:{topic.pattern})"
    elif topic.assign is not None:
        changes["assign"] = _prefixed_names(topic.assign, prefix)
    else:
        changes["topics"] = [prefix + name for name in topic.topic_names]
    if topic.receipts is not None:
        changes["receipts"] = prefix + topic.receipts
    for name in ("starting_offsets", "starting_timestamp"):
        if isinstance(given := getattr(topic, name), Mapping):
            changes[name] = _prefixed_names(given, prefix)
    return copy_with(topic, **changes)


def _prefixed_names(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {prefix + name: value for name, value in given.items()}


def _prefixed_sink(publish: Publish, prefix: str) -> Publish:
    if isinstance(publish.to, FileSink):
        folder, slash, name = publish.to.path.rstrip("/").rpartition("/")
        return copy_with(publish, to=copy_with(publish.to, path=f"{folder}{slash}{prefix}{name}"))
    if not isinstance(publish.to, KafkaSink):
        return publish
    return copy_with(publish, to=copy_with(publish.to, topic=prefix + publish.to.topic))
