"""Values in DuckDB's SQL with their types, and the conversions that Spark does by itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from common.errors import SqlError
from common.sql.quoting import standard_text

TIME = "TIMESTAMP WITH TIME ZONE"
SPAN, DAYS = "SPAN", "DAYS"
"""Types of spans of time, whose text is their microseconds; a date plus days is a date."""

DECIMAL_DIGITS = 38
"""Most digits of a decimal, in both engines."""
DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 20}
"""Whole numbers, from narrow to wide, with the digits that Spark gives them as decimals."""
_FAMILIES = {**dict.fromkeys(DIGITS, "i"), "FLOAT": "f", "DOUBLE": "f", "VARCHAR": "s", "BOOLEAN": "b"}
_FAMILIES |= {"DATE": "d", TIME: "t", SPAN: "v", DAYS: "v", "NULL": "0"}
_SAME = {"INT": "INTEGER", "TEXT": "VARCHAR", "CHAR": "VARCHAR", "TIMESTAMPTZ": TIME}
_EXACT_DIGITS = 15
"""Most digits of a decimal that both engines make the same double."""
_MOMENT = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?)?"
_LITERALS = {
    **dict.fromkeys(DIGITS, r"-?\d{1,18}"),
    "DOUBLE": r"-?\d{1,300}(?:\.\d{1,300})?",
    "DECIMAL": r"-?\d{1,38}(?:\.\d{1,38})?",
    "DATE": r"\d{4}-\d\d-\d\d",
    TIME: _MOMENT,
}
"""The texts that are read as a value of a type; Spark reads more, and has an error for others."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value."""

    sql: str  # its text in DuckDB's SQL, in brackets where it needs them
    type: str  # DuckDB's name of its type, or that of a span
    constant: str | None = None  # the text, or the number, that stands in the SQL; None for anything else

    @property
    def family(self) -> str:
        """A letter: i, m (decimal), f, s, b, d(ate), t(ime), v (span), 0 (null), l(ist) or o(ther)."""
        if self.type.startswith("DECIMAL"):
            return "m"
        return _FAMILIES.get(self.type, "l" if self.type.endswith("[]") else "o")

    @property
    def digits(self) -> tuple[int, int]:
        """Digits of a whole number or a decimal, and those behind the point."""
        if self.constant is not None and self.type in DIGITS:
            return len(self.constant.lstrip("-")), 0
        return (DIGITS[self.type], 0) if self.type in DIGITS else _digits(self.type)

    def field(self, name: str) -> Value:
        """A field of a struct.

        Raises:
            SqlError: There is none.
        """
        nested = (
            exp.DataType.build(self.type, dialect="duckdb").expressions
            if self.type.startswith("STRUCT")
            else ()
        )
        for each in nested:
            if each.this.name.lower() == name.lower():
                name = standard_text(each.this.name)
                return Value(f"struct_extract({self.sql}, {name})", type_name(each.args["kind"]))
        raise SqlError(f"has {name}, which is no field")


def type_name(kind: exp.DataType) -> str:
    """DuckDB's name of a type."""
    name = kind.this.value if isinstance(kind.this, exp.DType) else ""
    if name == "DECIMAL":
        p, s = ([int(each.name) for each in kind.expressions] + [0, 0])[:2]
        return f"DECIMAL({p or 10},{s})"
    name = _SAME.get(name, name)
    return name if name in _FAMILIES else str(kind.sql(dialect="duckdb"))


def decimal(digits: int, scale: int) -> str:
    """A type of decimals.

    Raises:
        SqlError: It has more digits than there is room for, so that engines round otherwise.
    """
    if digits > DECIMAL_DIGITS:
        raise SqlError(f"has a decimal of {digits} digits, which engines round otherwise")
    return f"DECIMAL({digits},{scale})"


def text(value: str) -> Value:
    """A text that stands in the SQL."""
    return Value(standard_text(value), "VARCHAR", value)


def number(written: str) -> Value:
    """A number that stands in the SQL, with the type that Spark gives it."""
    if re.fullmatch(r"-?\d+", written):
        value = int(written)
        kind = next((name for name in ("INTEGER", "BIGINT") if -limit(name) <= value < limit(name)), "")
        return Value(f"CAST({value} AS {kind})", kind, str(value)) if kind else _decimal(written)
    if re.fullmatch(r"-?(\d+\.\d*|\.\d+)", written):
        return _decimal(written)
    if re.fullmatch(r"-?[\d.]+[eE][+-]?\d+", written):
        return Value(f"CAST('{written}' AS DOUBLE)", "DOUBLE", written)
    raise SqlError(f"has {written}, a number that is not translated")


def limit(kind: str) -> int:
    """The number above the greatest whole number of a type."""
    return int(2 ** {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}[kind])


def _decimal(written: str) -> Value:
    value = Decimal(written)
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    kind = decimal(max(len(digits), scale, 1), scale)
    return Value(f"CAST('{value:f}' AS {kind})", kind, f"{value:f}")


def moment(at: datetime) -> Value:
    """A point in time."""
    micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return Value(f"make_timestamptz({micros})", TIME)


def day(at: date) -> Value:
    """A date."""
    return Value(f"DATE '{at.isoformat()}'", "DATE")


def read_literal(value: Value, kind: str) -> Value | None:
    """A text that stands in the SQL as another type, as a cast reads it; None if that is not certain."""
    written, name = value.constant, kind.partition("(")[0]
    pattern = _LITERALS.get(name)
    if (
        pattern is None
        or written is None
        or value.type != "VARCHAR"
        or not re.fullmatch(pattern, written, re.ASCII)
    ):
        return None
    try:
        if kind == "DATE":
            return day(date.fromisoformat(written))
        if kind == TIME:
            at = datetime.fromisoformat(written)
            return moment(at.replace(tzinfo=at.tzinfo or UTC))
    except (ValueError, OverflowError):
        return None
    fits = True
    if name in DIGITS:
        fits = -limit(kind) <= int(written) < limit(kind)
    elif name == "DECIMAL":
        (p, s), (digits, scale) = _decimal(written).digits, _digits(kind)
        fits = s <= scale and p - s <= digits - scale
    return Value(f"CAST('{written}' AS {kind})", kind) if fits else None


def converted(value: Value, kind: str) -> Value | None:
    """A value as one of a wider type, as Spark converts it by itself; None if it does not, or not exactly."""
    have, own = value.family, value.type
    if own == kind:
        return value
    if have == "0":
        return Value(f"CAST(NULL AS {'BIGINT' if kind in {SPAN, DAYS} else kind})", kind)
    if have == "s":
        return read_literal(value, kind) if kind in {"DATE", TIME} else None
    if kind == SPAN and have == "v":
        return replace(value, type=kind)
    if have == "m" and kind == "DOUBLE" and value.constant is not None:
        return Value(f"CAST('{value.constant}' AS DOUBLE)", kind)
    form = _CONVERTED.get((have, kind), "CAST({} AS {})" if _is_wider(value, kind) else "")
    return Value(form.format(value.sql, kind), kind, value.constant) if form else None


_CONVERTED = {
    ("d", TIME): "make_timestamptz(epoch_us({}))",
    ("t", "DATE"): "CAST(make_timestamp(epoch_us({})) AS DATE)",
}


def _is_wider(value: Value, kind: str) -> bool:
    """Whether a type of numbers holds every value of a number's own type."""
    have = value.family
    if kind in DIGITS:
        return have == "i" and DIGITS[value.type] < DIGITS[kind]
    if kind == "DOUBLE":
        return have in "if" or (have == "m" and value.digits[0] <= _EXACT_DIGITS)
    if not kind.startswith("DECIMAL") or have not in "im":
        return False
    (p, s), (digits, scale) = value.digits, _digits(kind)
    return s <= scale and p - s <= digits - scale


def common_type(values: Sequence[Value]) -> str | None:
    """The type in which Spark compares values; None where engines may differ."""
    found: Mapping[str, Value] = {each.type: each for each in values if each.family != "0"}
    families = "".join(sorted({each.family for each in found.values()}))
    if len(found) <= 1:
        return next(iter(found), "NULL")
    if families == "i":
        return max(found, key=lambda kind: DIGITS[kind])
    if families in {"m", "im"}:
        pairs = [each.digits for each in values if each.family != "0"]
        scale = max(s for _, s in pairs)
        return decimal(max(p - s for p, s in pairs) + scale, scale)
    if families in {"f", "fi", "fm", "fim"}:
        return "DOUBLE"
    if families in {"ds", "st"}:  # a text that stands in the SQL is read as a date or time
        return next(each.type for each in found.values() if each.family != "s")
    return {"dt": TIME, "v": SPAN}.get(families)


def _digits(kind: str) -> tuple[int, int]:
    digits, scale = re.findall(r"\d+", kind)
    return int(digits), int(scale)
