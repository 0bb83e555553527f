"""``docs/author/declarations.md``: each class of a pipeline file and its attributes, with their texts."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import get_args

from common import declare
from common.declare.declared import SPELT, ordered
from common.declare.value_formats import Decimals, Framing, Timestamps

_SINKS = ("KafkaSink", "FileSink", "BatchSink", "ForeachSink", "MemorySink", "ConsoleSink")

_SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("The pipeline", ("Pipeline",)),
    ("Bronze tables", ("Topic", "Files", "DeltaTable", "Stream", "Message")),
    ("Silver tables", ("Silver", "Rule", "Lookup")),
    ("Formats of values", ("Json", "Debezium", "Avro", "Protobuf", "Csv", "Text", "Bytes", "Columns")),
    ("Gold tables", ("Aggregate", "Upsert", "ChangeFeed", "History", "Join", "View", "Stateful", "Custom")),
    ("Windows and bounds of time", ("Window", "Session", "Within")),
    ("How a table is read and stored", ("Reading", "Storage")),
    (
        "Publishing",
        ("Publish", "KafkaSink", "FileSink", "BatchSink", "ForeachSink", "MemorySink", "ConsoleSink"),
    ),
    (
        "Data quality",
        (
            "Quality",
            "RowCount",
            "Freshness",
            "Unique",
            "NullShare",
            "InRange",
            "InSet",
            "Matches",
            "Meets",
            "ValueShare",
            "SameDistribution",
            "References",
            "SumsEqual",
            "SameAs",
            "Expect",
        ),
    ),
)

_WORDS = {"Timestamps": Timestamps, "Framing": Framing, "Decimals": Decimals}

_TYPES: Mapping[str, str] = {
    "Trigger": "interval, or `asap`",
    "FollowingTrigger": "interval, `follow` or `asap`",
    "Count": "number",
    "ByteSize": "bytes",
    "TableName": "name",
    "TopicTable": "name",
    "Interval": "interval",
    "Distance": "distance",
    "Names": "list of names",
    "Reads": "text, or list of texts",
    "Expressions": "columns, or a dict",
    "ColumnTexts": "dict of column and SQL, or function",
    "Options": "dict of texts",
    "Mapping[str, str]": "dict of texts",
    "Mapping[TableName, str]": "dict of name and DDL text",
    "Mapping[str, Any]": "dict",
    "Mapping[str, Sequence[int]]": "dict of topic and partitions",
    "Offsets": "dict of topic, partition and offset",
    "Sequence[str]": "list of names",
    "Value": "value format",
    "Texts": "list of texts",
    "MessagePart": "text, [Avro](#avro) or [Protobuf](#protobuf)",
    "str": "text",
    "int": "number",
    "bool": "bool",
    "bytes": "Python's bytes",
    "Any": "function, or object",
    "Scalar": "number, text, boolean, date or time",
    "Sequence[Any]": "list of values",
    "Severity": '`"warn"`, `"error"`',
    "float": "number",
    "Sequence[AnyExpectation]": "list of expectations",
    "Callable[[int], Iterator[Message]]": "function",
    "Callable[[Any, Any], None]": "function",
    "Callable[[Any], None]": "function",
    "Callable[[Any, int, str], None]": "function",
}
"""Types of attributes in words; a type that is not here is shown as a list of classes, or not at all."""

_TOLD_ON = {
    "Files": "files.md#what-a-record-becomes",
    "DeltaTable": "delta-source.md#what-a-row-becomes",
    "Stream": "stream-source.md",
    "View": "gold.md#a-statement-view",
    "Stateful": "stateful.md",
    "Custom": "custom-and-publish.md",
}
"""Where all is told that the text of a class says below its first line."""

_UNIONS = ("Bronze", "Gold", "Hook", "Table", "Value", "gx")
"""Public names that are types of several classes, and the name of Great Expectations."""


def reference() -> str:
    """Every class and attribute with type, default and meaning, as the Markdown of the page."""
    lines = [
        "# Declarations",
        "",
        "Every class of a pipeline file (`from medallion import Pipeline, Topic, …`): its attributes,",
        "their types, defaults after `=`, and what they mean. A wrong value is refused with file and line;",
        "`medallion check` reports all mistakes at once; what it says of each is a table in",
        "[tests/spec/check](../../tests/spec/check). [each_class.py](../reference/each_class.py) is a",
        "pipeline with all of them.",
        "",
        "A *name* is lower-case words joined by `_`; an *interval* is a text such as `10 minutes`, a",
        "*distance* may be negative, *bytes* are written as `512m`. *Columns, or a dict*: a list of columns,",
        'or `{"name": "SQL expression"}`.',
        "",
        "Written by `python -m distribution.pages.declarations_reference > docs/author/declarations.md`.",
    ]
    told: dict[tuple[str, str, str], str] = {}
    for title, names in _SECTIONS:
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", f"### {name}", "", *_class_lines(getattr(declare, name), told)]
    return "\n".join(lines) + "\n"


def documented() -> frozenset[str]:
    """Names of the classes on the page."""
    return frozenset(name for _, names in _SECTIONS for name in names)


def classes() -> frozenset[str]:
    """Names of the public classes of a pipeline file."""
    return frozenset(declare.__all__) - set(_UNIONS)


def _class_lines(cls: type, told: dict[tuple[str, str, str], str]) -> Iterator[str]:
    """The text of a class and the list of its attributes."""
    text = _markdown(inspect.cleandoc(cls.__doc__ or ""))
    if page := _TOLD_ON.get(cls.__name__):
        text = f"{text.partition(chr(10))[0]} [What it does]({page})."
    yield from text.splitlines()
    if rows := list(_attribute_rows(cls, told)):
        yield from ("", *rows)


def _attribute_rows(cls: type, told: dict[tuple[str, str, str], str]) -> Iterator[str]:
    """An item per attribute; an optional one that ``told`` has is a word on its class."""
    meanings, aliases = meanings_of(cls), _spelt(cls)
    again: dict[str, list[str]] = {}
    for name, (kind, default) in _attributes(cls).items():
        first = told.setdefault((kind, default, meanings[name]), cls.__name__)
        if first != cls.__name__ and default:
            again.setdefault(first, []).append(f"`{aliases.get(name, name)}`")
            continue
        said = ", ".join(filter(None, (_type(kind), "" if default else "required")))
        shown = f"{said} = {default}" if default not in {"", "unset"} else said
        yield f"- `{aliases.get(name, name)}` ({shown}): {_markdown(meanings[name])}"
    for first, names in again.items():
        yield f"- As for [{first}](#{first.lower()}): {', '.join(names)}."


def _attributes(cls: type) -> dict[str, tuple[str, str]]:
    """Annotation and default of each attribute, as the source has them, in the order of the arguments."""
    found: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("common.declare"):
            found |= _own_attributes(base)
    if dataclasses.is_dataclass(cls):
        return {field.name: found[field.name] for field in ordered(cls)}
    return found


def _class_node(cls: type) -> ast.ClassDef:
    source = Path(inspect.getsourcefile(cls) or "").read_text(encoding="utf-8")
    classes_of_file = [each for each in ast.parse(source).body if isinstance(each, ast.ClassDef)]
    (node,) = [each for each in classes_of_file if each.name == cls.__name__]
    return node


def _own_attributes(cls: type) -> dict[str, tuple[str, str]]:
    return {
        each.target.id: (ast.unparse(each.annotation), _default(each.value))
        for each in _class_node(cls).body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and not ast.unparse(each.annotation).startswith("ClassVar")
    }


def _default(value: ast.expr | None) -> str:  # noqa: PLR0911  # a return per kind
    if value is None:
        return ""
    text = ast.unparse(value)
    if text == "None":
        return "unset"
    if text == "()":
        return "`[]`"
    if text.startswith(("field(default=None", "spelt(")):
        return "unset"
    if (plain := re.match(r"field\(default=(True|False|\d[\d_]*)\b", text)) is not None:
        return f"`{plain[1]}`"
    if (constant := re.match(r"field\(default='(\w+)'", text)) is not None:
        return f'`"{constant[1]}"`'
    if text.startswith("field("):
        factory = re.search(r"default_factory=(\w+)", text)
        return f"`{factory[1]}()`" if factory is not None and factory[1] != "lambda" else "`{}`"
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return f"`{value.value!r}`".replace("'", '"')
    return f"`{text}`".replace("'", '"')


def _type(annotation: str) -> str:  # noqa: PLR0911  # a return per kind
    """An annotation in words."""
    if "_schema" in annotation:
        return "text, or `StructType`"
    annotation = re.sub(r"^Annotated\[(.*?), (?:Plain|Before|After)Validator.*", r"\1", annotation)
    if annotation in _TYPES:
        return _TYPES[annotation]
    literal = re.fullmatch(r"Literal\[(.*)\]", annotation)
    if literal is not None:
        return ", ".join(f"`{word.strip()}`" for word in literal[1].replace("'", '"').split(","))
    several = re.fullmatch(r"Sequence\[(\w+)\]", annotation)
    if several is not None:
        return f"list of {_type(several[1])}"
    if annotation in _WORDS:
        return ", ".join(f'`"{word}"`' for word in get_args(_WORDS[annotation]))
    if annotation == "Gold":
        return "gold table"
    if annotation == "Bronze":
        return "[Topic](#topic), [Files](#files), [DeltaTable](#deltatable) or [Stream](#stream)"
    parts = [part for part in _split(annotation) if part != "None"]
    if len(parts) > 1 or parts[0] != annotation:
        return " or ".join(_type(part) for part in parts)
    return f"[{annotation}](#{annotation.lower()})" if annotation in documented() else ""


def _split(annotation: str) -> list[str]:
    """The members of a union; brackets are not divided."""
    parts, depth = [""], 0
    for letter in annotation:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def meanings_of(cls: type) -> dict[str, str]:
    """The text below each attribute of a class and of the classes it is derived from, by name."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("common.declare"):
            body = _class_node(base).body
            for each, below in pairwise(body):
                if not isinstance(below, ast.Expr) or not isinstance(below.value, ast.Constant):
                    continue
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    found[each.target.id] = " ".join(str(below.value.value).split())
    written = {name: alias for name, alias in _spelt(cls).items() if name in found}
    return found | {alias: found[name] for name, alias in written.items()}


def _spelt(cls: type) -> dict[str, str]:
    """The names of a class's fields as they are written, by the fields' own."""
    fields = ordered(cls) if dataclasses.is_dataclass(cls) else []
    return {each.name: each.metadata.get(SPELT, each.name) for each in fields}


def _markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201  # a generator of documentation prints it
