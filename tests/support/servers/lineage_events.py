"""Checks an event, as a receiver gets it, against OpenLineage's own classes."""

from __future__ import annotations

import importlib
import re
from typing import Any

import attr
from openlineage.client import event_v2

_SECTIONS = ("facets", "inputFacets", "outputFacets")
"""Keys with facets, each of a class of its own."""


def validate(event: dict[str, Any]) -> None:
    """Fail unless an event has the keys that its classes have, and each facet those of its class."""
    _fits(event, event_v2.RunEvent, "event")
    _fits(event["run"], event_v2.Run, "run")
    _fits(event["job"], event_v2.Job, "job")
    facets = [*event["run"]["facets"].items(), *event["job"]["facets"].items()]
    for kind, cls in (("inputs", event_v2.InputDataset), ("outputs", event_v2.OutputDataset)):
        for dataset in event[kind]:
            _fits(dataset, cls, kind)
            for section in _SECTIONS:
                facets += dataset.get(section, {}).items()
    for name, content in facets:
        _fits(content, _class_of(content["_schemaURL"]), name)


def _class_of(schema_url: str) -> type:
    """The class of a facet, by the address of its schema."""
    found = re.search(r"/(\w+)\.json#/\$defs/(\w+)$", schema_url)
    assert found is not None, schema_url
    package = "openlineage.client.generated."
    parts = re.findall(r"[A-Z][a-z]*", found[2].removesuffix("Facet"))
    module = importlib.import_module(package + "_".join(parts).lower())
    cls: type = getattr(module, found[2])
    return cls


def _fits(content: Any, cls: type, place: str) -> None:
    """Compare keys with the fields of an attrs class, and nested objects with the classes of the fields."""
    known = {field.name: field for field in attr.fields(attr.resolve_types(cls))}  # type: ignore[type-var]
    needed = {name for name, field in known.items() if field.default is attr.NOTHING}
    assert not set(content) - set(known) - {"schemaURL"}, f"{place}: {set(content) - set(known)}"
    assert not needed - set(content), f"{place}: lacks {needed - set(content)}"
    for name, value in content.items():
        inner = _nested(known[name].type) if name in known and name not in _SECTIONS else None
        if inner is None:
            continue
        items = (
            value if isinstance(value, list) else value.values() if _is_mapping(known[name].type) else [value]
        )
        for each in items:
            if isinstance(each, dict):
                _fits(each, inner, f"{place}.{name}")


def _is_mapping(kind: Any) -> bool:
    return "dict[" in str(kind).lower()


def _nested(kind: Any) -> type | None:
    """The class of the generated module that is in an annotation."""
    if attr.has(kind):
        found: type = kind
        return found if kind.__module__.startswith("openlineage.client.generated") else None
    for argument in getattr(kind, "__args__", ()):
        if (inner := _nested(argument)) is not None:
            return inner
    return None
