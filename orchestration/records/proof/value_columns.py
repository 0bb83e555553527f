"""The columns of a silver table computed by DuckDB from the JSON values in bronze, where that is exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from common.declare import Json, Silver
from common.declare.declared import folder_of
from common.errors import PipelineError, SqlError
from common.schema.value_fields import Field, fields
from common.sql.duckdb.text import expression
from common.sql.duckdb.values import TIME, Value
from common.sql.quoting import double_quoted, standard_text

_TYPES = {
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "double": "DOUBLE",
    "timestamp": TIME,
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "date": "DATE",
}
_COORDINATES = {"topic": "VARCHAR", "partition": "INTEGER", "offset": "BIGINT", "timestamp": TIME}


@dataclass
class ValueColumns:
    """Expressions over the fields of bronze's values.

    Attributes:
        silver: The declaration.
        texts: By column, its expression in DuckDB's SQL, over the columns of ``source``.
        why_not: By column, why it is not computed.
    """

    silver: Silver
    texts: dict[str, str] = field(default_factory=dict)
    why_not: dict[str, str] = field(default_factory=dict)
    _paths: list[tuple[str, str]] = field(default_factory=list)
    _fields: Sequence[Field] = ()

    def add(self, name: str, sql: str) -> None:
        """Add an expression of the declaration, or the reason why DuckDB does not compute it."""
        if (why := self._refused_value()) is not None:
            self.why_not[name] = why
            return
        try:
            self._fields = self._fields or fields(self.silver.value, folder_of(self.silver))  # type: ignore[arg-type]
            self.texts[name] = expression(sql, self._column, written=True).sql
        except (SqlError, PipelineError) as error:
            self.why_not[name] = str(error).splitlines()[0]

    def source(self, rows: str) -> str:
        """A query that adds the fields to rows of bronze, which have at least coordinates and value."""
        listed = ", ".join(standard_text(path) for path, _ in self._paths)
        read = f"try(json_extract_string(try(decode(value)), [{listed}]))" if self._paths else "NULL"
        named = "".join(
            f",\n    {_cast(number, kind)} AS {double_quoted(f'field {number}')}"
            for number, (_, kind) in enumerate(self._paths, 1)
        )
        return f"SELECT *{named}\n  FROM (SELECT *, {read} AS fields FROM {rows})"  # declared names only

    def _refused_value(self) -> str | None:
        value = self.silver.value
        if not isinstance(value, Json):
            return f"the value is {type(value).__name__}, and only Json is read by the script"
        if value.framing != "none":
            return "the value has a frame, which is not read by the script"
        return None if value.strict else "the value is read with strict=False"

    def _column(self, path: tuple[str, ...]) -> Value:
        """A field of the value, or a coordinate, as ``source`` has it."""
        if path[0].lower() == "_kafka":
            name = ".".join(path[1:]).lower()
            if name not in _COORDINATES:
                raise SqlError(f"has {'.'.join(path)}, which is not translated")
            return Value(double_quoted(name), _COORDINATES[name])
        where = "$" + "".join(f'."{name}"' for name in self._written(path, self._fields))
        kind = _type(path, self._fields)
        if (where, kind) not in self._paths:
            self._paths.append((where, kind))
        return Value(double_quoted(f"field {self._paths.index((where, kind)) + 1}"), kind)

    def _written(self, path: Sequence[str], among: Iterable[Field]) -> list[str]:
        found = _field(path, among)
        if any(letter in found.name for letter in '"\\'):
            raise SqlError(f"has the field {found.name}, whose name is not translated")
        return [found.name, *(self._written(path[1:], found.nested) if len(path) > 1 else ())]


def _cast(number: int, kind: str) -> str:
    """A field by its number; a cast of text to text would cost time for nothing."""
    found = f"fields[{number}]"
    return found if kind == "VARCHAR" else f"try_cast({found} AS {kind})"


def _field(path: Sequence[str], among: Iterable[Field]) -> Field:
    for one in among:
        if one.name.lower() == path[0].lower():
            return one
    raise SqlError(f"has {path[0]}, which is no field of the value")


def _type(path: Sequence[str], among: Iterable[Field]) -> str:
    found = _field(path, among)
    if len(path) > 1:
        return _type(path[1:], found.nested)
    if found.kind == "decimal":
        return found.type.upper().replace(" ", "") if "(" in found.type else "DECIMAL(10,0)"
    if found.kind not in _TYPES:
        raise SqlError(f"has {found.name} of type {found.type}, which is not read by the script")
    return _TYPES[found.kind]


def of_silver(silver: Silver) -> ValueColumns:
    """The declared columns of a silver table; none of a table whose columns a function makes."""
    found = ValueColumns(silver)
    if isinstance(silver.columns, Mapping):
        for name, sql in silver.columns.items():
            found.add(name, sql)
    return found
