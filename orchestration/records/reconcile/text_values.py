"""Whether a column's type holds all that a text says, as conditions of DuckDB's SQL. Pure.

DuckDB reads ``1.504`` for two decimal places as 1.50, ``12:00:00.1234567`` to the microsecond, and a date in
front of anything. A text that says more than its type holds is not the value that it is read as. How a value
is spelt does not matter: ``1e3``, ``+1``, ``01.50`` and midnight as a part of a date are held.
"""

from __future__ import annotations

from common.sql.quoting import standard_text

_NUMBER = r"^\s*[+-]?([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?\s*$"
_DATE = (
    r"^\s*[0-9]+[-/][0-9]+[-/][0-9]+\s*"
    r"([T ]\s*0{1,2}:0{1,2}(:0{1,2}(\.0*)?)?\s*(Z|UTC|[+-]00(:?00)?)?)?\s*$"
)
_BEYOND_MICROSECONDS = r"\.[0-9]{6}[0-9]*[1-9]"
_OFFSET = r":[0-9.]+\s*[+-][0-9:]*[1-9]"


def is_nested(kind: str) -> bool:
    """Whether a value of DuckDB's type has values within."""
    return kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION", "VARIANT"))


def holds(text: str, value: str, kind: str) -> str:  # noqa: PLR0911  # one per kind
    """The condition that a type holds all that a text says.

    Args:
        value: SQL of what DuckDB reads it as, which is not null.
        kind: DuckDB's type of the value.
    """
    if is_nested(kind):
        return f"{_bare(f'CAST({value} AS VARCHAR)')} = {_bare(text)}"
    if kind.startswith("DECIMAL"):
        return _has_decimals(text, value, int(kind.rstrip(")").rpartition(",")[2]))
    if kind.endswith(("INT", "INTEGER")):
        return _has_decimals(text, value, 0)
    if kind in {"DOUBLE", "FLOAT"}:
        return _is_in_range(text, value)
    if kind == "DATE":
        return _matches(text, _DATE)
    if kind.startswith("TIMESTAMP"):
        held = f"NOT {_matches(text, _BEYOND_MICROSECONDS)}"
        # A local time has no room for the distance to UTC.
        return held if kind.endswith("ZONE") else f"{held} AND NOT {_matches(text, _OFFSET)}"
    return "true"


def _has_decimals(text: str, value: str, most: int) -> str:
    """Whether a number has at most so many decimals; zeros at the end do not count."""
    parts = f"regexp_extract({text}, {standard_text(_NUMBER)}, ['whole', 'part', 'power'])"
    whole, part, power = (f"struct_extract({parts}, '{name}')" for name in ("whole", "part", "power"))
    digits = f"concat({whole}, {part})"
    decimals = (
        f"length({part}) - length({digits}) + length(rtrim({digits}, '0')) "
        f"- CAST(coalesce(nullif({power}, ''), '0') AS BIGINT)"
    )
    return (
        f"CASE WHEN CAST({value} AS VARCHAR) = {text} THEN true WHEN {digits} = '' THEN false "
        f"WHEN rtrim({digits}, '0') = '' THEN true ELSE TRY({decimals}) <= {most} END"
    )


def _is_in_range(text: str, value: str) -> str:
    """Whether a number is neither too large nor too small for its type; else it is the nearest one."""
    is_infinite = _matches(text, "(?i)inf|nan")
    is_zero = f"NOT {_matches(text, '^[^eE]*[1-9]')}"
    return f"CASE WHEN isfinite({value}) THEN {value} <> 0 OR {is_zero} ELSE {is_infinite} END"


def _matches(text: str, pattern: str) -> str:
    return f"regexp_matches({text}, {standard_text(pattern)})"


def _bare(text: str) -> str:
    """A nested value as text, without spaces and quotes, which may be those of another program."""
    return f"regexp_replace({text}, '[\\s\"'']', '', 'g')"
