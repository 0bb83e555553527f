"""The functions that DuckDB computes as Spark does, by their arguments. A test proves each line. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TABLE = """
length len char_length character_length | s     | INTEGER | length({0})
octet_length                            | s     | INTEGER | strlen({0})
trim                                    | s     | VARCHAR | trim({0}, ' ')
ltrim                                   | s     | VARCHAR | ltrim({0}, ' ')
rtrim                                   | s     | VARCHAR | rtrim({0}, ' ')
left                                    | s N   | VARCHAR | left({0}, {1})
substring substr                        | s N   | VARCHAR | substring({0}, {1})
substring substr                        | s N N | VARCHAR | substring({0}, {1}, {2})
replace                                 | s S S | VARCHAR | replace({0}, {1}, {2})
lpad                                    | s N S | VARCHAR | lpad({0}, {1}, {2})
rpad                                    | s N S | VARCHAR | rpad({0}, {1}, {2})
upper ucase                             | a     | VARCHAR | upper({0})
lower lcase                             | a     | VARCHAR | lower({0})
startswith                              | s s   | BOOLEAN | starts_with({0}, {1})
endswith                                | s s   | BOOLEAN | ends_with({0}, {1})
contains                                | s s   | BOOLEAN | contains({0}, {1})
instr                                   | s s   | INTEGER | instr({0}, {1})
locate position                         | s s   | INTEGER | instr({1}, {0})
isnan                                   | f     | BOOLEAN | coalesce(isnan({0}), false)
nanvl                                   | f f   | DOUBLE  | (CASE WHEN isnan({0}) THEN {1} ELSE {0} END)
isnull                                  | x     | BOOLEAN | ({0} IS NULL)
isnotnull                               | x     | BOOLEAN | ({0} IS NOT NULL)
size cardinality array_size             | l     | INTEGER | len({0})
year                                    | d     | INTEGER | year({0})
quarter                                 | d     | INTEGER | quarter({0})
month                                   | d     | INTEGER | month({0})
week weekofyear                         | d     | INTEGER | week({0})
day dayofmonth                          | d     | INTEGER | day({0})
dayofweek dow                           | d     | INTEGER | dayofweek({0}) + 1
weekday                                 | d     | INTEGER | isodow({0}) - 1
dayofyear doy                           | d     | INTEGER | dayofyear({0})
hour                                    | t     | INTEGER | hour({0})
minute                                  | t     | INTEGER | minute({0})
second                                  | t     | INTEGER | second({0})
last_day                                | d     | DATE    | last_day({0})
unix_date                               | d     | INTEGER | {0} - DATE '1970-01-01'
date_add dateadd                        | d i   | DATE    | {0} + {1}
date_sub                                | d i   | DATE    | {0} - {1}
datediff date_diff                      | d d   | INTEGER | {0} - {1}
unix_micros                             | u     | BIGINT  | {0}
unix_millis                             | u     | BIGINT  | ({0} - ({0} % 1000 + 1000) % 1000) // 1000
unix_seconds                            | u     | BIGINT  | ({0} - ({0} % 1000000 + 1000000) % 1000000) // 1000000
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Form:
    """A function with some arguments."""

    # A letter per argument. ``s f i d``: of this family, or what Spark makes one by itself; ``t``: a time as
    # one without a zone, ``u``: as microseconds; ``S``, ``N``: a text, a number above 0, that stand in the
    # SQL; ``a``: a text, and an error for one with other letters than ASCII's; ``l``: a list; ``x``:
    # anything.
    arguments: str
    type: str  # DuckDB's name of its type
    text: str  # its text in DuckDB's SQL


def _forms() -> Iterator[tuple[str, Form]]:
    for line in _TABLE.strip().splitlines():
        names, arguments, kind, text = (part.strip() for part in line.split("|", 3))
        for name in names.split():
            yield name, Form(arguments.replace(" ", ""), kind, text)


AGGREGATES = frozenset(
    {"count", "count_if", "sum", "min", "max", "avg", "mean", "bool_and", "every", "bool_or", "any", "some"}
)
"""Functions of many rows that are translated, with their rules in ``calls``."""

FORMS: Mapping[tuple[str, int], Form] = {(name, len(form.arguments)): form for name, form in _forms()}
"""By name and number of arguments."""
