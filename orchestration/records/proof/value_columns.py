"""The columns of a silver table computed by DuckDB from the JSON values in bronze, where that is exact."""

from __future__ import annotations

import re
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
_WHOLE = "'BIGINT', 'UBIGINT'"
_TIME_TEXT = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?"
_READ_ALIKE = {
    "VARCHAR": f"{{kind}} IN ('VARCHAR', 'BOOLEAN') OR ({{kind}} IN ({_WHOLE}) AND {{text}} <> '0')",
    "BOOLEAN": "{kind} = 'BOOLEAN'",
    "DOUBLE": f"{{kind}} IN ({_WHOLE}, 'DOUBLE')",
    TIME: f"{{kind}} = 'VARCHAR' AND regexp_full_match({{text}}, '{_TIME_TEXT}')",
    "DATE": r"{kind} = 'VARCHAR' AND regexp_full_match({text}, '\d{4}-\d\d-\d\d')",
}
"""By type, the values of JSON that DuckDB gives as the bytes have them. It reads a number through a double
and spells it anew, which shows in a text and in a decimal of more digits than a double has."""
_DIGITS_OF_A_DOUBLE = 15

READ_OTHERWISE = "DuckDB may read a value otherwise than its bytes have it"
"""What is said of records that have such a field."""

_COORDINATES = {"topic": "VARCHAR", "partition": "INTEGER", "offset": "BIGINT", "timestamp": TIME}


@dataclass
class ValueColumns:
    """Expressions over the fields of bronze's values."""

    silver: Silver
    # By column, its expression in DuckDB's SQL, over the columns of ``source``.
    texts: dict[str, str] = field(default_factory=dict)
    why_not: dict[str, str] = field(default_factory=dict)  # by column, why it is not computed
    # By column, the numbers of the fields that it is computed from.
    fields_of: dict[str, set[int]] = field(default_factory=dict)
    _paths: list[tuple[str, str]] = field(default_factory=list)
    _fields: Sequence[Field] = ()
    _using: set[int] = field(default_factory=set)

    def is_read_alike(self, names: Iterable[str]) -> str:
        """The condition on rows of ``source`` that DuckDB has the fields of columns as the bytes have them.

        It reads the document again: to be asked of rows that differ.
        """
        numbers = sorted(set().union(*(self.fields_of.get(name, set()) for name in names)))
        if not numbers:
            return "true"
        each = " AND ".join(_alike(number, *self._paths[number - 1]) for number in numbers)
        return f"coalesce(value IS NULL OR (fields IS NOT NULL AND {each}), false)"

    def add(self, name: str, sql: str) -> None:
        """Add an expression of the declaration, or the reason why DuckDB does not compute it."""
        if (why := self._refused_value()) is not None:
            self.why_not[name] = why
            return
        self._using = set()
        try:
            self._fields = self._fields or fields(self.silver.value, folder_of(self.silver))  # type: ignore[arg-type]
            self.texts[name] = expression(sql, self._column, written=True).sql
            self.fields_of[name] = self._using
        except (SqlError, PipelineError) as error:
            self.why_not[name] = str(error).splitlines()[0]

    def add_key(self, key: Sequence[str]) -> None:
        """Add the columns of a key by their numbers, as ``k0``: their names may be any."""
        columns = self.silver.columns
        for number, name in enumerate(key):
            if isinstance(columns, Mapping) and name in columns:
                self.add(f"k{number}", columns[name])
            else:
                self.why_not[f"k{number}"] = "a function makes the columns"

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
        decimals = getattr(self.silver.value, "decimals", "number")
        if kind.startswith("DECIMAL") and decimals != "number":
            raise SqlError(
                f"has {'.'.join(path)}, a decimal that is written as {decimals}, which is not read"
            )
        if (where, kind) not in self._paths:
            self._paths.append((where, kind))
        number = self._paths.index((where, kind)) + 1
        self._using.add(number)
        return Value(double_quoted(f"field {number}"), kind)

    def _written(self, path: Sequence[str], among: Iterable[Field]) -> list[str]:
        found = _field(path, among)
        if any(letter in found.name for letter in '"\\'):
            raise SqlError(f"has the field {found.name}, whose name is not translated")
        return [found.name, *(self._written(path[1:], found.nested) if len(path) > 1 else ())]


def _cast(number: int, kind: str) -> str:
    """A field by its number; a cast of text to text would cost time for nothing."""
    found = f"fields[{number}]"
    return found if kind == "VARCHAR" else f"try_cast({found} AS {kind})"


def _alike(number: int, path: str, kind: str) -> str:
    """Whether DuckDB has a field, by its number, as the bytes have it."""
    if kind in _READ_ALIKE:
        own = _READ_ALIKE[kind]
    else:
        own = f"{{kind}} IN ({_WHOLE})"
        if kind.startswith("DECIMAL"):
            digits, places = map(int, re.findall(r"\d+", kind))
            # The reader takes no more places than the type has, so a small number has few digits.
            is_short = f'abs("field {number}"::DOUBLE) < 1e{_DIGITS_OF_A_DOUBLE - places}'
            own += f" OR ({{kind}} = 'DOUBLE' AND {digits <= _DIGITS_OF_A_DOUBLE or is_short})"
    there = f"coalesce(try(json_type(decode(value), {standard_text(path)})), 'NULL')"
    is_own = own.replace("{kind}", there).replace("{text}", f"fields[{number}]")
    return f"({there} = 'NULL' OR {is_own})"


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
