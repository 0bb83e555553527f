"""Spark SQL drawn at random over a table of values at which engines differ: what may be translated, and more.

No expression raises an error in Spark on these rows: sums stay small, and divisors are not 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

INF, NAN = float("inf"), float("nan")
TEXTS = [
    *(
        "",
        " ",
        "a",
        "A b ",
        "  x\t",
        "é",
        "ß",
        "😀x",
        "a\nb",
        "b\n",
        "x\r\n",
        "10",
        "-7",
        "1.50",
        "O'Brien",
        "\\",
    ),
    *(
        "a%b_c",
        "İı",
        "ﬁ",
        "e\u0301",
        "\u2028",
        "\x0b",
        "aé😀",
        "zz",
        '"q"',
        "2026-01-05",
        "ABC",
        "\u017f",
        "\u212a",
    ),
]
FAR = [-(2**63), 2**63 - 1, 2**53 + 1, -(2**31) - 1, 2**31, 0, -1, 999_999_999_999]
FLOATS = [
    0.0,
    -0.0,
    1.5,
    -2.5,
    0.1,
    NAN,
    INF,
    -INF,
    1e308,
    -1e308,
    5e-324,
    2.0**53,
    0.49999999999999994,
    1e15,
    3.0,
]
DATES = [date(1970, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1, 1, 1), date(9999, 12, 31),
    date(2024, 2, 29),
         date(2026, 3, 29), date(1969, 12, 31), date(2020, 12, 31), date(2021, 1, 3), date(1900, 3,
             1)]  # fmt: skip
TIMES = [datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
         datetime(1582, 10, 14, 12, tzinfo=UTC), datetime(2026, 3, 29, 0, 59, 59, 999_500, UTC),
         datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 0, 30, 0, 1, UTC),
         datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
         datetime(1900, 1, 1, 0, 0, 0, 500, UTC), datetime(2024, 2, 29, 13, 14, 15, 160_000,
             UTC)]  # fmt: skip
CENTS = [
    Decimal(text) for text in ("0.00", "-0.01", "1.50", "2.45", "-2.55", "99.99", "10.00", "-7.05", "0.50")
]
FINE = [
    Decimal(text) for text in ("0", "0.0000000001", "-1.5", "123456789.0000000001", "-0.0000000005", "2.5")
]
WIDE = [
    Decimal(text)
    for text in ("12345678901234567890123456789012345678", "0", "-1", "99999999999999999999", "7")
]

_POOLS: Mapping[str, tuple[Sequence[Any], pa.DataType]] = {
    "b": ([True, False], pa.bool_()),
    "c": ([True, False, True], pa.bool_()),
    "y": ([-128, 127, 0, 5], pa.int8()),
    "h": ([-(2**15), 2**15 - 1, 0, -3], pa.int16()),
    "i": ([0, 1, -1, 2, 7, -7, 100], pa.int32()),
    "j": ([3, -2, 1, 0, 10, 2], pa.int32()),
    "n": ([1, 2, -3, 10], pa.int32()),
    "w": ([2**31 - 1, -(2**31), 0, 12], pa.int32()),
    "k": ([5, -5, 0, 1_000_000, 86_400], pa.int64()),
    "l": (FAR, pa.int64()),
    "f": ([0.1, -0.0, 1.5, NAN, INF, 16777216.0], pa.float32()),
    "x": (FLOATS, pa.float64()),
    "z": ([*FLOATS, 1.0, 2.0, -3.5], pa.float64()),
    "m": (CENTS, pa.decimal128(12, 2)),
    "o": ([*CENTS, Decimal("5.00")], pa.decimal128(5, 2)),
    "p": (FINE, pa.decimal128(38, 10)),
    "u": (WIDE, pa.decimal128(38, 0)),
    "s": (TEXTS, pa.string()),
    "r": ([*TEXTS[::-1], "a", "b"], pa.string()),
    "d": (DATES, pa.date32()),
    "e": ([*DATES[3:], date(2026, 1, 5)], pa.date32()),
    "v": ([date(1, 1, 1), date(5, 2, 28), date(2026, 1, 1)], pa.date32()),
    "t": (TIMES, pa.timestamp("us", "UTC")),
    "q": ([*TIMES[2:], datetime(2026, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "far": ([2_932_897, 95_026_236, -719_529, -2_000_000, 0, 19_000, -141_428], pa.int32()),
    "a": ([[1, 2], [], [None], [3]], pa.list_(pa.int32())),
    "g": (
        [{"n": 1, "s": "x"}, {"n": None, "s": ""}, {"n": 3, "s": "é"}],
        pa.struct({"n": pa.int32(), "s": pa.string()}),
    ),
}


def rows(number: int, seed: int = 0) -> pa.Table:
    """A table of edge values; each column has every one of its values, and nulls."""
    random = Random(seed)  # a seeded case, no secret
    columns = {}
    for name, (pool, kind) in _POOLS.items():
        values = [*pool, None] * (number // (len(pool) + 1) + 1)
        random.shuffle(values)
        first = [*pool, None]
        columns[name] = pa.array([*first, *values][:number], kind)
        columns[name] = columns[name].take(pa.array(random.sample(range(number), number)))
    far = columns["far"]
    columns["far"] = far.cast(pa.date32())  # years that Python's dates do not have
    columns["far_t"] = pa.array(
        [None if one is None else one * 86_399_999_983 for one in far.to_pylist()], pa.timestamp("us", "UTC")
    )
    return pa.table(columns)


# What may stand for a value of each kind: columns and literals.
ATOMS = {
    "bool": ["b", "c", "true", "false", "cast(null as boolean)"],
    "int": ["i", "j", "n", "7", "-1", "0"],
    "nonzero": ["n", "3", "-2"],
    "whole": [
        "y",
        "h",
        "w",
        "l",
        "i",
        "k",
        "2147483647",
        "-2147483648",
        "2147483648",
        "9223372036854775807",
        "5",
    ],
    "small": ["i", "j", "k", "3"],
    "cents": ["m", "o", "1.50", "-0.01", "0.5", "100.00"],
    "exact": ["p", "u", "m", "o", "1.5", "0.0000000001"],
    "double": ["x", "z", "1e0", "-2.5e-1", "1e308", "0.1D"],
    "finite": ["cast(i as double)", "cast(m as double)", "2e0", "0.5D"],
    "real": ["f", "x", "z"],
    "text": [
        "s",
        "r",
        "'a'",
        "'é'",
        "''",
        "' b'",
        "'O''Brien'",
        '"q""r"',
        "r'\\'",
        "'\\n'",
        "'x' \"y\"",
        "null",
    ],
    "needle": ["'a'", "'é'", "' '", "'b\\n'", "'zz'", "'.'"],
    "count": ["1", "2", "5"],
    "date": ["d", "e", "date'2024-02-29'", "date '1582-10-15'"],
    "near": ["v", "date'2000-01-31'"],
    "far": ["far", "d"],
    "time": ["t", "q", "timestamp'2026-03-29 01:30:00'", "timestamp '2026-01-05 10:00:00.5Z'"],
    "mid": ["timestamp'2026-03-29 01:30:00'", "cast(v as timestamp)", "timestamp_seconds(k)"],
    "moment": ["far_t", "t"],
    "span": [
        "interval 1 day",
        "interval '3' hours",
        "interval 90 minutes",
        "interval 2 weeks",
        "interval 5 seconds",
        "interval 1 day 2 hours",
    ],
    "pattern": ["'a%'", "'%b'", "'_'", "'%\\\\%%'", "'%\\n%'", "'é%'", "''", "'%'", "'__'"],
    "regex": [
        "'^[a-z]+$'",
        "r'^\\s*$'",
        "'.'",
        "'^.$'",
        "r'\\d+'",
        "'a|b$'",
        "r'^[^@\\s]+$'",
        "'^(?:a|é).*'",
        "'[A-Z ]{2,}'",
        "''",
        "'^$'",
        "r'\\S$'",
        "'.$'",
    ],
    "daytext": ["'2024-02-29'", "'1582-10-15'"],
    "timetext": [
        "'2026-03-29 01:30:00'",
        "'2026-03-29'",
        "'2024-02-29T13:14:15.16Z'",
        "'1970-01-01 02:00:00+02:00'",
    ],
    "struct": ["g"],
    "list": ["a"],
}

COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>", "!=", "==", "is distinct from", "is not distinct from")
_PAIRS = [("whole", "whole"), ("cents", "whole"), ("cents", "cents"), ("double", "double"), ("double",
    "whole"), ("double", "cents"),
          ("exact", "cents"), ("real", "real"), ("real", "double"), ("text", "text"), ("date", "date"),
              ("time", "time"), ("date", "time"),
          ("time", "date"), ("bool", "bool"), ("far", "far"), ("moment", "moment"), ("date", "daytext"),
              ("time", "timetext")]  # fmt: skip
_SAME = ["whole", "cents", "double", "text", "date", "time", "bool", "int"]
FORMS: dict[str, list[str]] = {
    "bool": [
        *(f"{{{one}}} {sign} {{{other}}}" for one, other in _PAIRS for sign in COMPARED),
        *(f"{{{one}}} {word} {{{one}}} and {{{one}}}" for one in _SAME for word in ("between",
            "not between")),
        *(f"{{{one}}} {word} ({{{one}}}, {{{one}}}, null)" for one in _SAME for word in ("in", "not in")),
        *(f"{{{one}}} is {word}null" for one in (*_SAME, "struct", "list") for word in ("", "not ")),
        *(f"({{bool}}) is {word}" for word in ("true", "false", "not true", "not false")),
        "({bool}) and ({bool})", "({bool}) or ({bool})", "not ({bool})", "!({bool})",
            "{bool} and {bool} or not {bool}",
        "{text} like {pattern}", "{text} not like {pattern}", "{text} like 'a#%%' escape '#'",
            "{text} rlike {regex}",
        "regexp_like({text}, {regex})", "{text} not rlike {regex}",
        "startswith({text}, {text})", "endswith({text}, {text})", "contains({text}, {text})",
            "isnan({double})", "isnan({real})",
        "equal_null({whole}, {whole})", "isnull({text})", "isnotnull({double})", "g.n = {int}",
            "g.s = {text}",
        "{time} - {time} > {span}", "{date} - {date} > interval 3 days", "{mid} + {span} > {time}",
    ],
    "int": [
        "length({text})", "char_length({text})", "octet_length({text})", "instr({text}, {text})",
            "locate({text}, {text})",
        "position({needle}, {text})", "size({list})", "cardinality({list})", "{int} + {int}", "{int} - {int}",
            "{int} * {int}",
        "{int} % {nonzero}", "mod({int}, {nonzero})", "-({int})", "abs({int})", "cast({int} as int)",
            "int({int})",
        "cast({cents} as int)", "cast({finite} as int)", "datediff({date}, {date})",
            "if({bool}, {int}, {int})",
        "case when {bool} then {int} when {bool} then {int} end",
            "case {int} when {int} then {int} else {int} end",
        "greatest({int}, {int})", "least({int}, {int}, {int})", "coalesce({int}, {int})",
            "nullif({int}, {int})", "nvl({int}, {int})",
        "nvl2({text}, {int}, {int})", "ifnull({int}, {int})", "round({int})", "cast('12' as int)",
            "'-3' :: int", "cast({bool} as string) = 'true'",
        *(f"{part}({{{kind}}})" for kind in ("date", "time", "far", "moment") for part in ("year", "quarter",
            "month", "weekofyear", "day",
          "dayofmonth", "dayofweek", "weekday", "dayofyear")), "unix_date({date})", "unix_date({far})",
        *(f"{part}({{{kind}}})" for kind in ("time", "date", "moment") for part in ("hour", "minute",
            "second")),
        *(f"extract({part} from {{time}})" for part in ("year", "quarter", "month", "week", "day", "dow",
            "dayofweek", "doy", "hour", "minute")),
        "date_part('week', {date})",
    ],
    "big": [
        "{small} + {small}", "{small} - {int}", "{small} * {int}", "{int} div {nonzero}",
            "{small} div {nonzero}", "{small} % {nonzero}",
        *(f"unix_{unit}({{{kind}}})" for unit in ("seconds", "millis", "micros") for kind in ("time",
            "moment")),
        "floor({double})", "ceil({double})", "ceiling({finite})", "floor({int})", "cast({int} as bigint)",
            "bigint({int})",
        "floor({real})", "abs({small})",
    ],
    "number": [
        "{cents} + {cents}", "{cents} - {cents}", "{cents} * {cents}", "{cents} * {int}", "{cents} + {small}",
            "-({cents})", "abs({cents})",
        "round({cents}, 1)", "round({cents})", "round({exact}, 3)", "floor({cents})", "ceil({cents})",
            "floor({exact})", "cast({cents} as decimal(14, 1))",
        "cast({int} as decimal(12, 2))", "coalesce({cents}, {cents})", "greatest({cents}, {cents})",
            "nullif({cents}, {cents})",
        "if({bool}, {cents}, {int})", "case when {bool} then {cents} else {cents} end",
            "cast({cents} as decimal(6, 3))",
    ],
    "double": [
        "{double} + {double}", "{double} - {double}", "{double} * {double}", "{double} / {nonzero}",
            "{int} / {nonzero}", "{finite} / {nonzero}",
        "{double} % {nonzero}", "-({double})", "abs({double})", "round({double})", "cast({cents} as double)",
            "double({int})",
        "cast({whole} as double)", "greatest({double}, {double})", "least({double}, {double})",
            "coalesce({double}, {int})", "nullif({double}, {double})",
        "if({bool}, {double}, {cents})", "{real} + {real}", "{real} * {int}", "cast('1.25' as double)",
            "{cents} * {double}", "{real} / {nonzero}",
    ],
    "text": [
        "concat({text}, {text})", "{text} || {text} || {text}", "concat_ws({needle}, {text}, {text})",
            "concat_ws({text}, {text})",
        "trim({text})", "ltrim({text})", "rtrim({text})", "left({text}, {count})",
            "substring({text}, {count})", "substr({text}, {count}, {count})",
        "replace({text}, {needle}, 'xy')", "lpad({text}, 4, 'é-')", "rpad({text}, {count}, '.')",
            "coalesce({text}, {text})",
        "nullif({text}, {text})", "if({bool}, {text}, {text})",
            "case {text} when {text} then {text} else {text} end", "greatest({text}, {text})",
        "least({text}, {text})", "cast({whole} as string)", "string({int})", "cast({bool} as string)",
            "nvl({text}, {text})",
    ],
    "date": [
        "date_add({near}, {int})", "date_sub({date}, 0)", "last_day({near})", "trunc({date}, 'month')",
            "trunc({far}, 'YEAR')", "trunc({date}, 'week')",
        "trunc({date}, 'quarter')", "cast({time} as date)", "date({time})", "coalesce({date}, {date})",
            "{near} + interval 3 days", "{near} - interval 1 day",
        "cast('2024-02-29' as date)", "greatest({date}, {date})", "if({bool}, {date}, {near})",
            "dateadd({near}, 2)",
    ],
    "time": [
        *(f"date_trunc('{unit}', {{{kind}}})" for unit in ("year", "QUARTER", "mm", "week", "dd", "hour",
            "minute", "second") for kind in ("time", "date")),
        "{mid} + {span}", "{mid} - {span}", "{span} + {mid}", "timestamp_seconds({small})",
            "timestamp_millis({small})", "timestamp_micros({small})",
        "cast({date} as timestamp)", "timestamp({date})", "coalesce({time}, {date})",
            "greatest({time}, {time})", "{near} + interval 3 hours",
        "if({bool}, {time}, {time})", "cast('2026-03-29T01:00:00.123' as timestamp)",
    ],
}  # fmt: skip
"""Expressions by the kind of their values; a word in braces is a value of a kind."""


def drawn(random: Random, kind: str, depth: int) -> str:
    """An expression of a kind, with others of some depth inside of it."""
    if kind not in FORMS and kind not in ATOMS:
        return kind
    if kind not in FORMS or (kind in ATOMS and (depth <= 0 or random.random() < 0.3)):
        return random.choice(ATOMS[kind])
    return filled(random, random.choice(FORMS[kind]), depth - 1)


def filled(random: Random, form: str, depth: int) -> str:
    """A form with a value in each of its places."""
    parts = re.split(r"\{([a-z]+)\}", form)
    return "".join(
        part if place % 2 == 0 else _bracketed(drawn(random, part, depth)) for place, part in enumerate(parts)
    )


def _bracketed(sql: str) -> str:
    return sql if re.fullmatch(r"\w+|'[^']*'|\w+\([^()]*\)", sql) else f"({sql})"


_LETTERS = ["a", "b", "é", "x", " ", "1", r"\.", r"\d", r"\w", r"\s", r"\S", r"\D", r"\W", ".", "[ab]",
    "[^a]", r"[\s\d]", r"[^\s]",
            "[a-c]", "[é-ü]", r"\\", "@", "-", r"[\w.-]", r"\n", r"\r", "[^b-x]"]  # fmt: skip
_TIMES = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?"]


def pattern(random: Random) -> str:
    """A regular expression of Java's, without quotes."""

    def part(depth: int) -> str:
        one = (
            random.choice(_LETTERS)
            if depth == 0 or random.random() < 0.8
            else f"({'?:' * (random.random() < 0.5)}{either(depth - 1)})"
        )
        return one + random.choice(_TIMES)

    def either(depth: int) -> str:
        return "|".join(
            "".join(part(depth) for _ in range(random.randint(1, 3)))
            for _ in range(random.choice((1, 1, 1, 2)))
        )

    return random.choice(("", "^", "")) + either(2) + random.choice(("", "$", "", r"\z"))
