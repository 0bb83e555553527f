"""Says what is wrong with settings, and where each is set: file with line and column, variable, or flag."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from common.config.alert_settings import AlertRule
from common.errors import Fault, Problem, nearest
from common.wrong_values import wrong_value

PREFIX = "MEDALLION_"
"""Beginning of the variables that are settings."""

_HIDDEN = {"options", "conf", "schema_registry", "openlineage", "channels"}
"""Options of Kafka clients and of Spark may be passwords, and so may addresses of channels."""


@dataclass(frozen=True, slots=True)
class Origins:
    """Where settings come from: the files, of which the last wins, and the flags, which win over all."""

    files: Sequence[tuple[Path | None, Mapping[str, Any]]] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)

    def of(self, names: Sequence[str]) -> str:
        """The origin of a setting, by the names of its sections and its own."""
        if _holds(self.flags, names):
            return "flag"
        variable = PREFIX + "__".join(names).upper()
        if variable in os.environ:
            return f"environment {variable}"
        named = [path for path, content in self.files if path is not None and _holds(content, names)]
        if named:
            return f"{named[-1]}{_mark(named[-1], names)}"
        first = self.files[0][0] if self.files else None
        return str(first) if first else "settings"


def explained(error: ValidationError, origins: Origins, known: Iterable[str]) -> Iterator[Problem]:
    """Each mistake: where the setting is, its value, and what to write instead.

    Args:
        known: The dotted names of all settings and sections.
    """
    names_of_all = set(known)
    for fault in error.errors():
        names = [str(part) for part in fault["loc"]]
        dotted, where = ".".join(names), origins.of(names)
        if fault["type"] == "extra_forbidden":
            parent = dotted.rpartition(".")[0]
            siblings = {
                name for name in names_of_all if name.count(".") == len(names) - 1 and name.startswith(parent)
            }
            if names[:2] == ["alerts", "rules"]:
                fields = {each.alias or name for name, each in AlertRule.model_fields.items()}
                siblings = {".".join([*names[:-1], name]) for name in fields}
            text = f"{dotted} is not a setting; {nearest(dotted, siblings or names_of_all)}"
            yield Problem("settings", Fault("MED-1501", text), where)
        else:
            shown = "not usable" if _HIDDEN & set(names) or names == ["alerts"] else repr(fault["input"])
            text = f"{dotted} is {shown}: {wrong_value(fault)}"
            yield Problem("settings", Fault("MED-1502", text if text.endswith("?") else f"{text}."), where)


def _holds(tree: object, names: Sequence[str]) -> bool:
    for name in names:
        if not isinstance(tree, Mapping) or name not in tree:
            return False
        tree = tree[name]
    return True


def _mark(path: Path, names: Sequence[str]) -> str:
    """``:line:column`` of a setting's name in a YAML file; empty where it cannot be found."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return ""
    mark = ""
    for name in names:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        # Of a name that is there twice, YAML takes the last.
        found = [(key, value) for key, value in pairs if getattr(key, "value", None) == name]
        if not found:
            break
        key, node = found[-1]
        mark = f":{key.start_mark.line + 1}:{key.start_mark.column + 1}"
    return mark
