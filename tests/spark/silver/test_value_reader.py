"""Values that pass are the values that were sent; what is not has one reason, and never an exception."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.declare import Json
from silver.read.column_names import META
from silver.read.declared_columns import parse_values
from tests.support import reading

KINDS: dict[str, Any] = {
    "s": "string",
    "b": "boolean",
    "t": "tinyint",
    "h": "smallint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "m": "decimal(10,2)",
    "k": "decimal(38,10)",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "raw": "binary",
    "o": {"x": "int", "y": "string", "z": {"w": "double"}},
    "a": ["bigint"],
    "ao": [{"q": "int"}],
    "p": ("int",),
}


def ddl(kind: Any) -> str:
    if isinstance(kind, dict):
        return f"struct<{','.join(f'{name}: {ddl(each)}' for name, each in kind.items())}>"
    if isinstance(kind, list):
        return f"array<{ddl(kind[0])}>"
    return f"map<string,{ddl(kind[0])}>" if isinstance(kind, tuple) else str(kind)


DDL = ", ".join(f"{name} {ddl(kind)}" for name, kind in KINDS.items())
VALUE = Json(DDL)


@pytest.fixture(scope="module")
def bronze(spark: Any) -> Callable[..., Any]:
    """A bronze frame with these values, at offsets from 0 on."""

    def frame(*values: bytes | None) -> Any:
        rows = [("t", 0, at, None, 0, None, b"k", value, None) for at, value in enumerate(values)]
        return spark.createDataFrame(rows, SCHEMA)

    return frame


@pytest.fixture(scope="module")
def read(bronze: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    """Each value's fields, and ``fault``, ``field`` and ``rescued``, in order; times as datetimes in UTC."""

    def rows(values: list[bytes | None], value: Any, *, rescue: bool = False) -> list[dict[str, Any]]:
        frame = parse_values(bronze(*values), value, rescue=rescue)
        if "at" in frame.columns:
            frame = frame.withColumn("at", F.expr("cast(at as timestamp_ntz)"))
        told = frame.select(
            F.col(f"{META}.fault").alias("fault"),
            F.col(f"{META}.fault_field").alias("field"),
            F.col(f"{META}.rescued").alias("rescued"),
            *[name for name in frame.columns if name != META],
            F.col(f"{META}.offset").alias("__offset"),
        )
        found = [row.asDict(recursive=True) for row in told.collect()]
        return sorted(found, key=lambda row: int(row.pop("__offset")) if "__offset" in row else 0)

    return rows


NINES = "9" * 30
CASES: list[tuple[str, str, Any]] = [
    # field, JSON text, the value that comes out or (fault,)
    ("s", '"Łódź 🌍 \\n\\u0000\\/\\ud83c\\udf0d"', "Łódź 🌍 \n\0/🌍"),
    ("s", '""', ""),
    ("s", "null", None),
    ("s", NINES, NINES),
    ("s", "1.10", "1.10"),
    ("s", "12345678901234567890.10", "12345678901234567890.10"),
    ("s", "-0.0e-0", "-0.0e-0"),
    ("s", "true", "true"),
    ("s", '{ "x" : [1.10, "\\u0041"] }', '{ "x" : [1.10, "\\u0041"] }'),
    ("s", "[ ]", "[ ]"),
    ("s", '{"x":1,"x":2}', ("duplicate_key",)),
    ("s", "[NaN]", ("non_finite_number",)),
    ("s", '"\\ud800"', ("bad_unicode",)),
    ("s", '"\\udc00\\ud800"', ("bad_unicode",)),
    ("s", '"\\ud800\\u0041"', ("bad_unicode",)),
    ("s", '"\\ud83c\\ud83c\\udf0d"', ("bad_unicode",)),
    ("s", '{"\\ud800":1}', ("bad_unicode",)),
    ("s", '"\\x41"', ("malformed_json",)),
    ("s", '"\\u00g0"', ("malformed_json",)),
    ("s", '"\\u004"', ("malformed_json",)),
    ("s", "'a'", ("malformed_json",)),
    ("s", '"a', ("malformed_json",)),
    ("s", '"a\tb"', ("malformed_json",)),
    ("b", "true", True),
    ("b", "false", False),
    ("b", "1", ("wrong_type",)),
    ("b", '"true"', ("wrong_type",)),
    ("b", "True", ("malformed_json",)),
    ("b", "truely", ("malformed_json",)),
    ("t", "-128", -128),
    ("t", "128", ("number_out_of_range",)),
    ("h", "32767", 32767),
    ("h", "-32769", ("number_out_of_range",)),
    ("i", "2147483647", 2147483647),
    ("i", "-2147483648", -2147483648),
    ("i", "2147483648", ("number_out_of_range",)),
    ("i", NINES, ("number_out_of_range",)),
    ("i", "1.0", ("wrong_type",)),
    ("i", "1e2", ("wrong_type",)),
    ("i", '"5"', ("wrong_type",)),
    ("i", "true", ("wrong_type",)),
    ("i", "[]", ("wrong_type",)),
    ("i", "-0", 0),
    ("i", "01", ("malformed_json",)),
    ("i", "+1", ("malformed_json",)),
    ("i", "1.", ("malformed_json",)),
    ("i", ".5", ("malformed_json",)),
    ("i", "0x10", ("malformed_json",)),
    ("i", "1_000", ("malformed_json",)),
    ("i", "NaN", ("non_finite_number",)),
    ("l", "9223372036854775807", 2**63 - 1),
    ("l", "-9223372036854775808", -(2**63)),
    ("l", "9223372036854775808", ("number_out_of_range",)),
    ("l", "999999999999999999", 999999999999999999),
    ("d", "0.1", 0.1),
    ("d", "-0.0", -0.0),
    ("d", "1", 1.0),
    ("d", "1e22", 1e22),
    ("d", "1e23", 1e23),
    ("d", "9007199254740993", ("number_rounded",)),
    ("d", "123.15499877929688", 123.15499877929688),
    ("d", "123.15499877929687", ("number_rounded",)),
    ("d", "0.30000000000000004", 0.30000000000000004),
    ("d", "0.300000000000000040", 0.30000000000000004),
    ("d", "0.1000000000000000055511151231257827", 0.1),
    ("d", "0.1000000000000000055511151231257828", ("number_rounded",)),
    ("d", "0.10000000000000001", 0.1),
    ("d", "67.569999999999993", 67.57),
    ("d", "67.569999999999992", ("number_rounded",)),
    ("d", "0.0012521743774414063", 0.00125217437744140625),
    ("d", "5.684341886080802e-14", 2.0**-44),
    ("d", "1.7976931348623157e308", 1.7976931348623157e308),
    ("d", "1.7976931348623159e308", ("non_finite_number",)),
    ("d", "1e400", ("non_finite_number",)),
    ("d", "-1e400", ("non_finite_number",)),
    ("d", "1e-400", ("number_rounded",)),
    ("d", "1e-99999999999999999999", ("number_rounded",)),
    ("d", "0e99999999999999999999", 0.0),
    ("d", "5e-324", 5e-324),
    ("d", "4.9e-324", 5e-324),
    ("d", "4.8e-324", ("number_rounded",)),
    ("d", "2.2250738585072014e-308", 2.2250738585072014e-308),
    ("d", "2e23", 2e23),
    ("d", "NaN", ("non_finite_number",)),
    ("d", "Infinity", ("non_finite_number",)),
    ("d", "-Infinity", ("non_finite_number",)),
    ("d", '"NaN"', ("wrong_type",)),
    ("d", '"5.5"', ("wrong_type",)),
    ("f", "0.1", struct.unpack("f", struct.pack("f", 0.1))[0]),
    ("f", "16777216", 16777216.0),
    ("f", "16777217", ("number_rounded",)),
    ("f", "0.12345678", 0.12345678359270096),
    ("f", "0.123456789", ("number_rounded",)),
    ("f", "0.123456784", 0.12345678359270096),
    ("f", "0.10000000149011612", struct.unpack("f", struct.pack("f", 0.1))[0]),
    ("f", "3.4028235e38", 3.4028234663852886e38),
    ("f", "1e39", ("non_finite_number",)),
    ("f", "1e-46", ("number_rounded",)),
    ("m", "1.99", Decimal("1.99")),
    ("m", "1.990", Decimal("1.99")),
    ("m", "1.999", ("number_rounded",)),
    ("m", "-12345678.90", Decimal("-12345678.90")),
    ("m", "123456789", ("number_out_of_range",)),
    ("m", "12345678901.555", ("number_out_of_range",)),
    ("m", "1e7", Decimal("10000000.00")),
    ("m", "1e1000000000000", ("number_out_of_range",)),
    ("m", "1e-1000000000000", ("number_rounded",)),
    ("m", "0e-1000000000000", Decimal("0.00")),
    ("m", "0.005", ("number_rounded",)),
    ("m", '"1.5"', ("wrong_type",)),
    ("k", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
    ("k", f"{NINES[:28]}.{NINES[:11]}", ("number_rounded",)),
    ("k", NINES, ("number_out_of_range",)),
    ("k", "-0.1234567890000000000000000", Decimal("-0.1234567890")),
    ("k", f"0.{'0' * 50}", Decimal("0E-10")),
    ("day", '"2024-02-29"', date(2024, 2, 29)),
    ("day", '"0001-01-01"', date(1, 1, 1)),
    ("day", '"9999-12-31"', date(9999, 12, 31)),
    ("day", '"2023-02-29"', ("wrong_type",)),
    ("day", '"2024-2-9"', ("wrong_type",)),
    ("day", '"2024-02-29T00:00:00Z"', ("wrong_type",)),
    ("day", "19000", ("wrong_type",)),
    ("at", '"2024-02-29T12:00:00Z"', datetime(2024, 2, 29, 12)),
    ("at", '"2024-02-29 12:00:00.123456+02:30"', datetime(2024, 2, 29, 9, 30, 0, 123456)),
    ("at", '"2024-02-29T12:00-05"', datetime(2024, 2, 29, 17)),
    ("at", '"2024-02-29T12:00:00.1234560000+0000"', datetime(2024, 2, 29, 12, 0, 0, 123456)),
    ("at", '"2024-02-29T12:00:00.1234567Z"', ("number_rounded",)),
    ("at", '"2024-02-29T12:00:00"', ("timestamp_without_offset",)),
    ("at", '"2024-02-30T12:00:00Z"', ("invalid_timestamp",)),
    ("at", '"2024-02-29T24:00:00Z"', ("invalid_timestamp",)),
    ("at", '"2024-02-29T12:00:60Z"', ("invalid_timestamp",)),
    ("at", '"2024-02-29T12:00:00+19:00"', ("invalid_timestamp",)),
    ("at", '"2024-02-29T12:00:00 Europe/Paris"', ("invalid_timestamp",)),
    ("at", '"2024-02-29"', ("invalid_timestamp",)),
    ("at", '"yesterday"', ("invalid_timestamp",)),
    ("at", "1709208000", ("wrong_type",)),
    ("wall", '"1969-12-31T23:59:59.999999"', datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("wall", '"2024-02-29T12:00:00Z"', ("invalid_timestamp",)),
    ("raw", '"AAH/"', bytearray(b"\x00\x01\xff")),
    ("raw", '""', bytearray()),
    ("raw", '"AAE="', bytearray(b"\x00\x01")),
    ("raw", '"AAE"', ("wrong_type",)),
    ("raw", '"AAF="', ("wrong_type",)),
    ("raw", '"A A="', ("wrong_type",)),
    ("o", '{"x":1,"y":"é","z":{"w":0.5}}', {"x": 1, "y": "é", "z": {"w": 0.5}}),
    ("o", '{"y":{"x":1}}', {"x": None, "y": '{"x":1}', "z": None}),
    ("o", '{"\\u0078":7}', {"x": 7, "y": None, "z": None}),
    ("o", '{"x":1,"\\u0078":1}', ("duplicate_key",)),
    ("o", '{"X":1}', {"x": None, "y": None, "z": None}),
    ("o", '{"q":{"r":1,"r":1}}', ("duplicate_key",)),
    ("o", '{"x":"1"}', ("wrong_type",)),
    ("o", "[]", ("wrong_type",)),
    ("o", '"text"', ("wrong_type",)),
    ("a", "[1,2,null]", [1, 2, None]),
    ("a", "[ ]", []),
    ("a", "[1,]", ("malformed_json",)),
    ("a", "[1 2]", ("malformed_json",)),
    ("a", "1", ("wrong_type",)),
    ("ao", '[{"q":1},null]', [{"q": 1}, None]),
    ("p", '{"a":1,"b":null}', {"a": 1, "b": None}),
    ("p", '{"a":1,"a":2}', ("duplicate_key",)),
    ("p", "{}", {}),
]

WHOLE: list[tuple[bytes, str | None]] = [
    (b"", "empty_value"),
    (b" \t\r\n", "empty_value"),
    (b"{}", None),
    (b" \n{\t}\r ", None),
    (b"\xef\xbb\xbf{}", "malformed_json"),
    (b'{"s":"\xff"}', "not_utf8"),
    (b'{"s":"\xc0\xaf"}', "not_utf8"),
    (b'{"s":"\xe0\x80\xaf"}', "not_utf8"),
    (b'{"s":"\xed\xa0\x80"}', "not_utf8"),
    (b'{"s":"\xf4\x90\x80\x80"}', "not_utf8"),
    (b'{"s":"\xf0\x9f\x8c"}', "not_utf8"),
    (b'{"s":"\xf4\x8f\xbf\xbf\xee\x80\x80\xed\x9f\xbf"}', None),
    (b"null", "not_an_object"),
    (b"5", "not_an_object"),
    (b'"{}"', "not_an_object"),
    (b"[{}]", "not_an_object"),
    (b"[{}", "malformed_json"),
    (b"NaN", "non_finite_number"),
    (b"{} {}", "trailing_data"),
    (b"{}{}", "trailing_data"),
    (b"{}x", "trailing_data"),
    (b"{}\x00", "trailing_data"),
    (b'{"s":1', "malformed_json"),
    (b'{"s":1,}', "malformed_json"),
    (b"{s:1}", "malformed_json"),
    (b"{'s':1}", "malformed_json"),
    (b'{"s" 1}', "malformed_json"),
    (b'{"s":}', "malformed_json"),
    (b'{,"s":1}', "malformed_json"),
    (b'{"s":1 /* c */}', "malformed_json"),
    (b'{"s":1}//', "trailing_data"),
    (b'{"s":1,"s":2}', "duplicate_key"),
    (b'{"new":1,"new":2}', "duplicate_key"),
    (b'{"i":"x","s":', "malformed_json"),
    (b'{"i":"x","i":1}', "duplicate_key"),
    (b'{"i":"x","l":1.5}', "wrong_type"),
    (b"not json", "malformed_json"),
    (b"\x00", "malformed_json"),
]


def test_each_text_of_each_type_is_the_value_sent_or_its_reason(read: Callable[..., Any]) -> None:
    values = [f'{{"{name}":{text}}}'.encode() for name, text, _ in CASES]
    for (name, text, expected), row in zip(CASES, read(values, VALUE), strict=True):
        if isinstance(expected, tuple):
            assert (row["fault"], row[name]) == (expected[0], None), (name, text)
            continue
        assert (row["fault"], row[name]) == (None, expected), (name, text)
        if name in {"d", "m", "k"}:
            assert str(row[name]) == str(expected), (name, text)  # -0.0, and a decimal's digits
        assert [other for other in KINDS if row[other] is not None] == [name][: expected is not None]


def test_a_document_that_is_no_json_object_says_so_before_any_of_its_values(read: Callable[..., Any]) -> None:
    rows = read([value for value, _ in WHOLE], VALUE)
    assert [(value, row["fault"]) for (value, _), row in zip(WHOLE, rows, strict=True)] == WHOLE
    assert all(
        row[name] is None for row, (_, fault) in zip(rows, WHOLE, strict=True) if fault for name in KINDS
    )


def test_the_cases_are_what_plain_python_finds() -> None:
    """So that the oracle of the next tests is held to the same table."""
    for name, text, expected in CASES:
        if re.search(r"e-?\d{10}", text):
            continue  # Decimal has no such exponents
        fault, found = reading.read(f'{{"{name}":{text}}}'.encode(), KINDS)
        assert fault == (expected[0] if isinstance(expected, tuple) else None), (name, text)
        if found is not None and not isinstance(found[name], tuple) and not _has_json(found[name]):
            assert plain(found[name]) == plain(expected), (name, text)
    for value, expected_fault in WHOLE:
        fault, _ = reading.read(value, KINDS)
        assert fault == expected_fault or (fault, value) == ("wrong_type", b'{"i":"x","i":1}'), value


def plain(value: Any) -> Any:
    """Comparable: a decimal without the zeros of its scale, bytes as bytes."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, tuple):  # a JSON value in a string field: its text is compared by what it says
        return ("json", str(plain_json(value[1])))
    return bytes(value) if isinstance(value, bytearray) else value


def plain_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain_json(each) for name, each in value.items()}
    return [plain_json(each) for each in value] if isinstance(value, list) else value


class Generator:
    """Documents of the schema, mostly right, with exact values and some that are not."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311

    def document(self) -> bytes:
        names = self.chance.sample(list(KINDS), self.chance.randrange(1, 7))
        members = [f'"{name}":{self.value(KINDS[name])}' for name in names]
        if self.chance.random() < 0.3:
            members.insert(self.chance.randrange(len(members) + 1), f'"new{len(members)}":{self.anything(3)}')
        blank = self.chance.choice(["", " ", "\n\t"])
        return f"{{{blank}{f',{blank}'.join(members)}{blank}}}".encode()

    def value(self, kind: Any) -> str:  # noqa: PLR0911  # a line per type
        if self.chance.random() < 0.04:
            return self.anything(2)
        if isinstance(kind, dict):
            chosen = self.chance.sample(list(kind), self.chance.randrange(len(kind) + 1))
            return "{" + ",".join(f'"{name}":{self.value(kind[name])}' for name in chosen) + "}"
        if isinstance(kind, list):
            return "[" + ",".join(self.value(kind[0]) for _ in range(self.chance.randrange(4))) + "]"
        if isinstance(kind, tuple):
            return (
                "{" + ",".join(f'"k{n}":{self.value(kind[0])}' for n in range(self.chance.randrange(3))) + "}"
            )
        if kind == "string":
            return self.chance.choice([self.text, self.number])()
        if kind == "boolean":
            return self.chance.choice(["true", "false"])
        if kind in reading.INTEGERS:
            bits = reading.INTEGERS[kind]
            return str(self.chance.randrange(-(2**bits), 2**bits) >> self.chance.choice([0, 0, bits // 2]))
        if kind in {"float", "double"} or kind.startswith("decimal"):
            return self.number()
        return self.moment(kind)

    def number(self) -> str:
        way = self.chance.randrange(6)
        if way == 5:
            digits, kind = self.chance.randrange(15, 25), self.chance.choice("fe")
            return f"{self.chance.randrange(10**7) / 100:.{digits}{kind}}"
        if way == 0:
            return repr(struct.unpack("d", struct.pack("Q", self.chance.getrandbits(62)))[0])
        if way == 1:
            return repr(struct.unpack("f", struct.pack("I", self.chance.getrandbits(30)))[0])
        if way == 2:
            return f"{self.chance.randrange(-(10**10), 10**10) / 100}"
        digits = str(self.chance.randrange(10 ** self.chance.choice([1, 3, 9, 17, 18, 19, 20, 38])))
        sign = self.chance.choice(["", "-"])
        if way == 3:
            return f"{sign}{digits}.{self.chance.randrange(10 ** self.chance.randrange(1, 12))}"
        return f"{sign}{digits}e{self.chance.randrange(-30, 30)}"

    def text(self) -> str:
        letters = ["a", "é", "漢", "🌍", '"', "\\", "\n", "\x00", "\x7f", "\u2028", "/"]
        text = "".join(self.chance.choice(letters) for _ in range(self.chance.randrange(30)))
        return json.dumps(text, ensure_ascii=self.chance.random() < 0.5)

    def moment(self, kind: str) -> str:
        if kind == "binary":
            return self.chance.choice(['"AAEC"', '"AA=="', '"x"', '"+/8="'])
        year, month = self.chance.randrange(1, 9999), self.chance.randrange(1, 13)
        day = f"{year:04}-{month:02}-{self.chance.randrange(1, 31):02}"
        if kind == "date":
            return f'"{day}"'
        clock = (
            f"{self.chance.randrange(24):02}:{self.chance.randrange(60):02}:{self.chance.randrange(60):02}"
        )
        zone = self.chance.choice(["Z", "+01:00", "-1130", "+05", ""]) if kind == "timestamp" else ""
        return f'"{day}T{clock}{self.chance.choice(["", ".5", ".123456", ".1234567"])}{zone}"'

    def anything(self, depth: int) -> str:
        ways = ["null", "true", "0", '""', "[]", "{}", self.text(), self.number(), "1e999", '"\\ud800"']
        if depth and self.chance.random() < 0.4:
            inner = [self.anything(depth - 1) for _ in range(self.chance.randrange(4))]
            if self.chance.random() < 0.5:
                return f"[{','.join(inner)}]"
            return "{" + ",".join(f'"m{n}":{each}' for n, each in enumerate(inner)) + "}"
        return self.chance.choice(ways)

    def broken(self, value: bytes) -> bytes:
        """A byte lost, changed, doubled or added, or the rest cut off."""
        at = self.chance.randrange(len(value))
        other = self.chance.choice(
            [
                b"",
                b"\xff",
                b'"',
                b"\\",
                b"{",
                b"}",
                b",",
                b":",
                b"0",
                b" ",
                b"\x00",
                b"\xc3",
                b"e",
                b"-",
                b".",
            ]
        )
        way = self.chance.randrange(4)
        if way == 0:
            return value[:at]
        if way == 1:
            return value[:at] + other + value[at + 1 :]
        if way == 2:
            return value[:at] + other + value[at:]
        return value[:at] + bytes([self.chance.randrange(256)]) + value[at + 1 :]


def compared(values: list[bytes], rows: list[dict[str, Any]]) -> dict[str | None, int]:
    """Each row is what plain Python makes of the value; how often each fault was there."""
    seen: dict[str | None, int] = {}
    for value, row in zip(values, rows, strict=True):
        fault, found = reading.read(value, KINDS)
        seen[fault] = seen.get(fault, 0) + 1
        if fault in reading.DOCUMENT_FAULTS or row["fault"] in reading.DOCUMENT_FAULTS:
            # Several may be in one document, and each reader meets another first.
            assert (row["fault"] in reading.DOCUMENT_FAULTS) == (fault in reading.DOCUMENT_FAULTS), value
        else:
            assert row["fault"] == fault, value
        if found is not None:
            for name in KINDS:
                expected, got = plain(found[name]), plain(row[name])
                if isinstance(found[name], tuple):
                    got = ("json", str(plain_json(_loaded(got))))
                assert got == expected or _has_json(found[name]), (value, name, got, expected)
    return seen


def _loaded(text: str) -> Any:
    return json.loads(text, parse_int=reading.Number, parse_float=reading.Number)


def _has_json(value: Any) -> bool:
    """Whether somewhere in it a JSON value was kept as text."""
    each = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(inner, tuple) or _has_json(inner) for inner in each)


def test_generated_documents_are_read_as_plain_python_reads_them(read: Callable[..., Any]) -> None:
    make = Generator(7)
    values = [make.document() for _ in range(4000)]
    seen = compared(values, read(values, VALUE))
    assert seen[None] > 500
    assert min(seen[each] for each in ("number_rounded", "wrong_type", "number_out_of_range")) > 20


def test_broken_documents_are_read_as_plain_python_reads_them(read: Callable[..., Any]) -> None:
    make = Generator(8)
    values = [make.broken(make.document()) for _ in range(4000)]
    values += [
        bytes(make.chance.getrandbits(8) for _ in range(make.chance.randrange(40))) for _ in range(500)
    ]
    rows = read(values, VALUE)
    seen = compared(values, rows)
    assert seen["malformed_json"] > 500
    assert seen[None] > 100
    assert "reader_failed" not in {row["fault"] for row in rows}


CONTROLS = [bytes([code]) for code in range(0x20)]
HOSTILE: dict[str, tuple[bytes, str | None]] = {
    "deep arrays": (b'{"new":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"),
    "deep objects": (b'{"new":' * 100_000 + b"1" + b"}" * 100_000, "too_deep"),
    "deep and cut off": (b'{"s":' + b"[" * 100_000, "too_deep"),
    "deep in a struct": (b'{"o":' * 70, "too_deep"),
    "as deep as allowed": (b'{"new":' + b"[" * 63 + b"]" * 63 + b"}", None),
    "one level deeper": (b'{"new":' + b"[" * 64 + b"]" * 64 + b"}", "too_deep"),
    "25 MB of text": (b'{"s":"' + b"x" * 25_000_000 + b'"}', "too_large"),
    "10 MB of text": (b'{"s":"' + b"y" * 10_000_000 + b'"}', None),
    "10 MB of escapes": (b'{"s":"' + b"\\u0041" * 1_600_000 + b'"}', None),
    "10 MB of digits": (b'{"i":' + b"9" * 10_000_000 + b"}", "number_out_of_range"),
    "10 MB of digits for a double": (b'{"d":0.' + b"1" * 10_000_000 + b"}", "number_rounded"),
    "10 MB of zeros": (b'{"d":1' + b"0" * 10_000_000 + b"}", "non_finite_number"),
    "10 MB of zeros for a decimal": (b'{"k":1.' + b"0" * 10_000_000 + b"}", None),
    "10 MB of an exponent": (b'{"d":1e' + b"9" * 10_000_000 + b"}", "non_finite_number"),
    "a million elements": (b'{"a":[' + b"1," * 1_000_000 + b"1]}", None),
    "a million commas": (b'{"a":[' + b"," * 1_000_000 + b"]}", "malformed_json"),
    "many names": (
        b"{" + b",".join(b'"n%d":1' % n for n in range(200_000)) + b"}",
        None,
    ),
    "many names, the last one twice": (
        b"{" + b",".join(b'"n%d":1' % n for n in range(200_000)) + b',"n199999":1}',
        "duplicate_key",
    ),
    "names of one hash": (
        b"{" + b",".join(b'"%s":1' % b"".join(name) for name in product((b"Aa", b"BB"), repeat=15)) + b"}",
        None,
    ),
    "a name of 60 kB": (b'{"' + b"n" * 60_000 + b'":1}', None),
    "a name of 60 kB twice": ((b'{"' + b"n" * 60_000 + b'":1,"' + b"n" * 60_000 + b'":1}'), "duplicate_key"),
    "half a surrogate in a name of 60 kB": (b'{"' + b"n" * 60_000 + b'\\ud800":1}', "bad_unicode"),
    **{f"control {byte!r} in a text": (b'{"s":"a' + byte + b'b"}', "malformed_json") for byte in CONTROLS},
    **{
        f"control {byte!r} between": (
            b'{"s":' + byte + b"1}",
            None if byte in b" \t\r\n" else "malformed_json",
        )
        for byte in CONTROLS
    },
}


def test_hostile_values_are_one_row_each(bronze: Callable[..., Any]) -> None:
    """And what comes out of the largest is what was sent."""
    schema = "s string, i int, d double, k decimal(38,10), a array<int>, o struct<o: struct<x: int>>"
    frame = parse_values(bronze(*(value for value, _ in HOSTILE.values())), Json(schema))
    told = frame.select(
        F.col(f"{META}.offset"), F.col(f"{META}.fault"), F.length("s"), F.sha2("s", 256), F.size("a"), "k"
    )
    rows = {list(HOSTILE)[row[0]]: row for row in told.collect()}
    assert {name: row[1] for name, row in rows.items()} == {
        name: fault for name, (_, fault) in HOSTILE.items()
    }
    assert tuple(rows["10 MB of text"])[2:4] == (10_000_000, hashlib.sha256(b"y" * 10_000_000).hexdigest())
    assert tuple(rows["10 MB of escapes"])[2:4] == (1_600_000, hashlib.sha256(b"A" * 1_600_000).hexdigest())
    assert rows["a million elements"][4] == 1_000_001
    assert rows["10 MB of zeros for a decimal"][5] == 1
