"""The declaration under which a query was last started, kept as a file in the query's checkpoint.

A plan compares it with the declaration of a pipeline file, and shows both texts. Spark ignores the file. It
holds no secret: of options that may hold one it has the names only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from common.config.settings import Settings
from common.declare import Publish, Rule, Table, View
from common.declare.declared import SPELT, folder_of, text_of_function
from common.declare.value_formats import DESCRIPTOR_ENDINGS
from common.machine.files.state_file import StateFile
from common.machine.storage_folder import StorageFolder

FILE = "medallion_declaration.json"
"""Name of the file in a query's checkpoint."""

_SECRET = {"kafka", "options", "conf"}
"""Attributes and settings whose values may be secret."""

_BY_NAME = {"columns", "by", "measures", "on", "tables"}
"""Attributes whose entries are compared one by one."""

OWN_CODE: Mapping[str, str] = {
    "processor": "the table keeps the rows that the former class has emitted, and the new one goes on with "
    "its state. A rebuild runs all rows of the source through the new one",
    "write": "the tables keep what the former function has written",
}
"""Attributes of gold tables that are code of the user's own: what a start does where one has changed."""

_LOGIN = re.compile(r"(?<=//)[^/@\s]+@")
_HASH = 8


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration in texts."""

    kind: str  # the class, such as ``Upsert``
    # The text of each attribute that is not the default; entries of columns, measures, rules and lookups each
    # have their own, such as ``columns.amount``.
    attributes: Mapping[str, str]
    # The settings of the query's layer, by their dotted names.
    settings: Mapping[str, str] = field(default_factory=dict)


_FILE = StateFile(Declaration, indent=1)


def described(declared: Table | Publish, settings: Settings) -> Declaration:
    """A declaration and the settings of its layer in texts."""
    return Declaration(type(declared).__name__, _attributes(declared), _settings_of(declared.LAYER, settings))


def remember(checkpoint: str, declared: Table | Publish, settings: Settings) -> None:
    """Write the declaration into the checkpoint, unless the checkpoint has it already."""
    now = described(declared, settings)
    if recorded(checkpoint) != now:
        _FILE.write(StorageFolder(checkpoint), FILE, now)


def recorded(checkpoint: str) -> Declaration | None:
    """The declaration under which the query was last started; None where no start has recorded one."""
    try:
        return _FILE.read(StorageFolder(checkpoint), FILE)
    except ValueError:
        return None  # an unreadable copy says as little as none


def changed_code(checkpoint: str, declared: Table) -> str | None:
    """The attribute whose class or function differs from that of the last start; None if none does.

    Source texts are compared: not those of what a function calls, or a class extends.
    """
    before, now = recorded(checkpoint), _attributes(declared)
    former = {} if before is None else before.attributes
    return next((one for one in OWN_CODE if one in now and former.get(one, now[one]) != now[one]), None)


def _attributes(declared: object) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for each in dataclasses.fields(declared):  # type: ignore[arg-type]  # declarations are dataclasses
        value = getattr(declared, each.name)
        if each.name == "name" or value == _default(each):
            continue
        if each.name in _SECRET:
            texts |= {f"{each.name}.{name}": "(set)" for name in value}
        elif each.name in _BY_NAME and isinstance(value, Mapping):
            texts |= {f"{each.name}.{name}": _text(one, declared) for name, one in value.items()}
        elif each.name in {"rules", "lookups"}:
            singular = each.name.removesuffix("s")
            texts |= {f"{singular} {one.name}": _entry(one) for one in value}
        elif each.name in {"location", "foreign"}:  # of a Storage, whose table has it as one of its own
            continue
        elif each.name == "storage":
            texts |= {"location": value.folder} if value.location is not None else {}
            texts |= {"foreign": value.foreign} if value.foreign is not None else {}
            texts |= {"storage": text} if (text := _text(value, declared)) != "Storage()" else {}
        elif each.name == "trigger":
            texts[each.name] = value or "asap"
        else:
            texts[each.metadata.get(SPELT, each.name)] = _text(value, declared)
    return texts


def _entry(declared: object) -> str:
    if isinstance(declared, Rule):
        return f"{_one_line(declared.condition)} -> {declared.on_fail}"
    return _text(declared, declared)


def _text(value: object, owner: object) -> str:
    """A value in one line; equal values have equal texts in any process."""
    if isinstance(value, str):
        if value.strip().lower().endswith((".json", ".avsc", ".sql", *DESCRIPTOR_ENDINGS)):
            content = _content(value, owner)
            return value if content is None else f"{value} ({_hash(content)})"
        return _LOGIN.sub("…@", _one_line(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = (f"{name}={text}" for name, text in _attributes(value).items())
        return f"{type(value).__name__}({', '.join(inner)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_text(one, owner)}" for name, one in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_text(one, owner) for one in value) + "]"
    return _plain(value)


def _content(name: str, owner: object) -> bytes | None:
    """What a file has; of a statement, what it had when the declaration read it: that is what runs."""
    if isinstance(owner, View):
        return owner.statement.encode() if owner.is_file else None
    file = folder_of(owner) / name
    return file.read_bytes() if file.is_file() else None


def _plain(value: object) -> str:
    """A function by its name and its source, a number as it is, any other object by its class."""
    if hasattr(value, "jsonValue"):
        return json.dumps(value.jsonValue())
    if callable(value):
        return (
            f"{getattr(value, '__name__', type(value).__name__)} ({_hash(text_of_function(value).encode())})"
        )
    return str(value) if isinstance(value, bool | int | float | None) else type(value).__name__


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _default(each: dataclasses.Field[Any]) -> object:
    if each.default_factory is not dataclasses.MISSING:
        return each.default_factory()
    return each.default


def _settings_of(layer: str, settings: Settings) -> Mapping[str, str]:
    """The settings that the queries of a layer depend on."""
    section = "gold" if layer == "publish" else layer
    found = {f"{section}.{name}": value for name, value in _flat(getattr(settings, section))}
    found["spark.shuffle_partitions"] = str(settings.spark.shuffle_partitions)
    return found


def _flat(section: BaseModel) -> Sequence[tuple[str, str]]:
    """The settings of a section, without those that may be secret."""
    return [
        (name, _LOGIN.sub("…@", str(value)))
        for name, value in section.model_dump().items()
        if name not in _SECRET and "login" not in name
    ]
