"""Which options of Kafka's clients an author cannot set, and why; how others are spelt: ``common.config``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from common.errors import Fault, nearest

OF_A_CONSUMER = {
    "auto.offset.reset": "use starting_offsets instead",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "key.deserializer": "bronze keeps raw bytes",
    "value.deserializer": "bronze keeps raw bytes",
    "key.serializer": "bronze keeps raw bytes",
    "value.serializer": "bronze keeps raw bytes",
    "interceptor.classes": "Spark's Kafka source refuses it",
}
"""What a topic cannot be read with."""

_SERIALIZED = "keys and values are SQL text, Avro(…) or Protobuf(…)"
OF_A_PRODUCER = {
    "key.serializer": _SERIALIZED,
    "value.serializer": _SERIALIZED,
    "transactional.id": "Spark's Kafka sink writes without transactions: a BatchSink with a producer of your "
    "own has them",
}
"""What rows cannot be sent with."""

_ISOLATION = ("read_committed", "read_uncommitted")


def reserved_option(option: str, reserved: Mapping[str, str]) -> Iterator[Fault]:
    """Faults of an option of Kafka's client that is not the user's to set.

    Args:
        reserved: Why an option cannot be set, by its name.
    """
    bare = option.removeprefix("kafka.")
    if bare != option:
        yield Fault("MED-1106", f"kafka option {option!r}: write it without 'kafka.': {bare!r}")
    if bare in reserved:
        yield Fault("MED-1106", f"kafka option {bare!r} cannot be set: {reserved[bare]}")


def isolation_fault(options: Mapping[str, str]) -> Iterator[str]:
    """The fault of an isolation level that there is not."""
    given = options.get("isolation.level", _ISOLATION[0])
    if given.lower() not in _ISOLATION and not given.startswith(("env:", "file:")):
        hint = nearest(given, _ISOLATION)
        yield Fault("MED-1106", f"kafka option 'isolation.level' is {given!r}; {hint}")
