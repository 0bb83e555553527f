"""Drawn expressions of Spark's SQL, by the type of their value, over the columns that a scope has.

An expression gives the same value whenever it is computed again, and none fails for a value that the tables
have; ``throwing`` gives those that fail for some rows, each with the condition that leaves these rows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.support.drawn.parts import Part, filled, part

KINDS: Mapping[str, str] = {
    "i": "int",
    "l": "bigint",
    "d": "double",
    "p": "decimal",
    "s": "string",
    "b": "boolean",
    "D": "date",
    "t": "timestamp",
    "S": "array<string>",
    "I": "array<int>",
    "m": "map<string,int>",
    "x": "struct<a:int,b:string>",
}
"""The types by the letter that stands for each in a template."""

LITERALS: Mapping[str, Sequence[str]] = {
    "i": ["0", "1", "2", "9", "10", "-3", "+1", "1S", "4Y", "cast(null as int)", "int('9')"],
    "l": ["1L", "9L", "10l", "-3L", "cast(9 as bigint)", "cast(null as bigint)"],
    "d": ["1.0D", "2.5d", "1e1", "-0.0D", "0D", ".5D", "double('NaN')", "cast('infinity' as double)", "25e-1"],
    "p": ["1.5", "9.0", "10.00", "2.5BD", "-.25", "cast(1 as decimal(10,2))"],
    "s": [
        "'a'",
        "'b'",
        '"a"',
        "''",
        "'O''Brien'",
        '"say ""hi"""',
        "'it\\'s'",
        "'a\\\\b'",
        r"r'a\b'",
        'R"a b"',
        "'x -- y'",
        "'/* c */'",
        "'{b}'",
        "'  a  b'",
        "'a' 'b'",
        "'\\u00e9'",
        "'é'",
        "'9'",
        "cast(null as string)",
        "'a%'",
        "'silver'",
        "'__in0__'",
    ],
    "b": ["true", "false", "TRUE", "cast(null as boolean)"],
    "D": ["date'2026-01-09'", "DATE '2026-01-10'", 'date"2026-01-10"', "cast('2026-1-9' as date)"],
    "t": ["timestamp'2026-01-09 13:00:00'", "TIMESTAMP '2026-01-10'", "timestamp_seconds(1767916800)"],
    "S": ["array()", "array('a')", "array('b', null)", "cast(null as array<string>)", "split('a b', ' ')"],
    "I": ["array(9, 10)", "array(1)", "sequence(1, 3)", "cast(array() as array<int>)"],
    "m": ["map('a', 1)", "cast(map() as map<string,int>)", "map('a', 1, 'b', null)", "map_from_arrays(array('a'), array(2))"],
    "x": ["named_struct('a', 1, 'b', 'x')", "struct(9 as a, 'a' as b)"],
}  # fmt: skip

PLAIN: Mapping[str, Sequence[str]] = {
    "i": [
        "coalesce({i}, 0) % 7 + 1", "{i} % 3", "pmod({i}, 3)", "length({s})", "try_cast({s} as int)", "size({S})",
        "coalesce({i}, {i})", "case when {b} then {i} else {i} end", "case {i} when 1 then 9 when 9 then 1 end",
        "extract(year from {D})", "year({t})", "month({D})", "day({D})", "dayofweek({D})", "weekofyear({D})",
        "hour({t})", "quarter({D})", "datediff({D}, {D})", "ascii({s})", "unix_date({D})", "greatest({i}, {i})",
        "least({i}, 5)", "nullif({i}, 1)", "{x}.a", "{m}['a']", "{i} & 3", "{i} | 4", "{i} ^ 1", "~{i}",
        "shiftleft({i}, 1)", "{i} << 1", "{i} >> 1", "instr({s}, 'a')", "locate('a', {s})", "hash({s}, {i}) % 1000",
        "if({b}, {i}, 1)", "nvl({i}, -1)", "nvl2({i}, 1, 2)", "levenshtein({s}, 'ab')", "bit_count({i})",
        "element_at({m}, 'a')", "try_element_at({I}, 1)", "array_max({I})", "array_size({S})", "cardinality({m})",
        "aggregate({I}, 0, (acc, e) -> acc + coalesce(e, 0))", "reduce({I}, 1, (a, b) -> a + 1)", "zeroifnull({i})",
        "width_bucket({i}, 0, 10, 5)", "decode({i}, 1, 10, 9, 90, -1)", "json_array_length('[1,2]') + {i} % 3",
        "character_length({s})", "octet_length({s})", "sign({i})::int", "cast({b} as int)", "find_in_set({s}, 'a,b')",
        "get_json_object('{{\"a b\": 7}}', '$[\"a b\"]')::int + {i} % 2", "position('a', {s})", "{i} % 9 * 2 - 1",
    ],
    "l": [
        "cast({i} as bigint)", "{l} % 9 + 1", "xxhash64({s}) % 1000", "unix_seconds({t})", "crc32(cast({s} as binary))",
        "array_position({S}, 'a')", "coalesce({l}, 0)", "floor({p})", "ceil({p})", "unix_micros({t}) % 1000",
        "bigint({i})", "{l} div 2", "abs({l})", "unix_timestamp({t})", "date_part('day', {t})::bigint", "factorial(3) + {l} % 5",
        "timestampdiff(hour, {t}, timestamp'2026-02-01')", "regexp_count({s}, 'a')::bigint", "greatest({l}, {i})",
    ],
    "d": [
        "{d} * 2", "cast({i} as double)", "{i} / 2", "coalesce({d}, 0.0D)", "-{d}", "nanvl({d}, 0D)", "round({d}, 1)",
        "floor(log10(cast(abs({i}) + 1000 as double)))::double", "sqrt(abs({i}))", "if({b}, {d}, -0.0D)", "double({p})",
        "{d} + {i}", "greatest({d}, 0D)", "abs({d})", "case when {d} > 1 then {d} end", "months_between({D}, {D})",
        "signum({d})", "rint({d})", "bround({d}, 0)", "log2(8) + {i}", "pow({i} % 3, 2)", "negative({d})", "nvl({d}, 1D)",
    ],
    "p": [
        "{p} + 1", "{p} * 2", "cast({i} as decimal(12,3))", "round({p}, 1)", "{p} % 2", "coalesce({p}, 0.0)", "-{p}",
        "{p} - {i}", "greatest({p}, 1.5)", "if({b}, {p}, 0.25)", "cast({p} as decimal(20,5))", "abs({p})",
    ],
    "s": [
        "upper({s})", "lower({s})", "trim({s})", "substring({s}, 1, 2)", "concat({s}, {s})", "{s} || {s}", "substr({s}, -2)",
        "coalesce({s}, {s})", "case when {b} then {s} else 'none' end", "cast({i} as string)", "cast({d} as string)",
        "cast({p} as string)", "cast({D} as string)", "{t}::string", "date_format({t}, 'yyyy-MM-dd''T''HH')", "string({l})",
        "date_format({D}, 'y')", "date_format({t}, 'EEE d. MMM')", "replace({s}, 'a', 'O''B')", "left({s}, 1)", "right({s}, 1)",
        "regexp_replace({s}, r'[a-c]', 'z')", "regexp_extract({s}, '([a-z])', 1)", "translate({s}, 'ab', 'ba')",
        "lpad({s}, 4, '*')", "rpad({s}, 3)", "initcap({s})", "reverse({s})", "repeat({s}, 2)", "concat_ws('  ', {s}, {s})",
        "split_part({s}, ' ', 1)", "to_json({x})", "to_json({m})", "hex({s})", "md5({s})", "typeof({i})", "typeof(unix_date({D}))",
        "try_element_at({S}, 1)", "array_join({S}, ',', '?')", "nvl({s}, '?')", "ifnull({s}, 'a')",
        "trim(both 'a' from {s})", "overlay({s} placing 'X' from 1 for 1)", "to_char({p} % 10, '9G999D99')", "{x}.b",
        "decode({i}, 1, 'one', 'other')", "elt(1, {s}, 'b')", "sha2({s}, 256)", "soundex({s})", "format_string('%s-%s', {s}, {i})",
        "printf('%s', {s})", "mask({s})", "base64(cast({s} as binary))", "nullif({s}, '')", "btrim({s})", "chr(65 + abs({i}) % 3)",
        "parse_url('http://a.b/c?k=1', 'QUERY') || {s}", "get_json_object(to_json({x}), '$.b')", "conv(string({i}), 10, 16)",
        "monthname({D})", "dayname({D})", "quote({s})", "url_encode({s})", "substring_index({s}, 'a', 1)",
        "case {s} when 'a' then 'x' when \"b\" then 'O''B' else {s} end", "try_element_at(map_keys({m}), 1)",
        "to_json(({i}, {s}))", "to_json(struct(({s}), {i}))", "aggregate({S}, '', (n, D) -> N || coalesce(d, {s}))",
    ],
    "b": [
        "{i} = {i}", "{i} > 1", "{l} <= 9", "{i} <> {i}", "{s} = {s}", "{s} < 'b'", "{s} <=> {s}", "{i} <=> {i}", "{i} is null",
        "{s} is not null", "{s} like '%a%'", "{s} not like 'a_'", "{s} rlike '^[0-9]+$'", "{s} ilike 'A%'", "{i} in (1, 9, null)",
        "{s} in ('a', 'O''Brien')", "{i} between 1 and 9", "{s} not in ('a')", "not {b}", "({b} or {b})", "({b} and {b})",
        "({b} or {b} and {b})", "{b} is true", "{b} is not false", "{i} is distinct from {i}", "exists({I}, e -> e > 1)",
        "array_contains({S}, 'a')", "forall({I}, e -> e > 1)", "isnan({d})", "startswith({s}, 'a')", "{d} > 1", "{p} >= 1.5",
        "{D} > date'2026-01-01'", "{t} >= timestamp'2026-01-09'", "coalesce({b}, false)", "{i} = {d}", "{i} = {p}", "{D} = {t}",
        "contains({s}, 'a')", "like({s}, 'a%')", "equal_null({s}, 'a')", "{i} % 2 == 0", "{i} != 1", "!{b}", "isnull({x})",
        "map_contains_key({m}, 'a')", "arrays_overlap({S}, array('a'))", "{S} = array('a')", "{x} = {x}", "{s} like any ('a%', '%b')",
        "(case when {b} then {i} end) is null", "{x}.a > 1", "{l} = {i}", "{s} > {s} or {s} is null", "luhn_check({s})", "{s} collate UTF8_LCASE = 'A'",
        "exists({S}, N -> n > {s})", "forall({S}, n -> n >= {s} or N is null)", "exists({I}, (V) -> v > {i})", "({i}, {s}) = ({i}, {s})",
        "({i}, {s}) in ((1, 'a'), (9, 'b'), (10, null))",
    ],
    "D": [
        "cast({t} as date)", "date_add({D}, 1)", "{D} + interval 1 day", "{D} - interval '1' month", "last_day({D})",
        "to_date('2026-01-05')", "trunc({D}, 'MM')", "make_date(2026, 1, abs({i}) % 28 + 1)", "coalesce({D}, date'2026-01-09')",
        "to_date('26-1-5', 'y-M-d')", "next_day({D}, 'MO')", "add_months({D}, 1)", "date({t})", "date_sub({D}, 2)", "{D} + 1",
        "greatest({D}, date'2026-01-01')", "try_to_date({s}, 'yyyy-M-d')", "date_from_unix_date({i})", "dateadd(day, 2, {D})::date",
        "trunc({D}, coalesce({s}, 'YEAR'))",
    ],
    "t": [
        "{t} + interval 1 day 2 hours", "{t} - interval 1 day 2 hours", "{t} - 2 * interval 1 hour", "date_trunc('DAY', {t})",
        "date_trunc(coalesce({s}, 'MONTH'), {t})", "cast({D} as timestamp)", "timestamp_seconds({i})", "dateadd(hour, 2, {t})",
        "coalesce({t}, timestamp'2026-01-09')", "window({t}, '1 hour').start", "timestampadd(minute, 5, {t})", "timestamp({D})",
        "{t} + interval '1 02:03:04' day to second", "{t} + make_interval(0, 0, 0, 1)", "to_timestamp('2026-01-09 10', 'yyyy-MM-dd HH')",
        "{t} + (- interval 1 day 1 hour)", 'date_trunc("HOUR", {t})', "from_utc_timestamp({t}, 'Asia/Tokyo')", "try_to_timestamp({s})",
    ],
    "S": [
        "split({s}, ' ')", "array({s}, {s})", "array_distinct({S})", "filter({S}, e -> e <> 'a')", "transform({S}, e -> e || '-')", "transform({S}, Day -> day || {s})",
        "array_sort({S})", "map_keys({m})", "coalesce({S}, array())", "array_union({S}, array('z'))", "slice({S}, 1, 1)", "sort_array({S}, false)",
        "concat({S}, {S})", "array_remove({S}, 'a')", "array_append({S}, {s})", "filter({S}, (e, at) -> at % 2 = 0)", "reverse({S})",
        "array_compact({S})", "regexp_extract_all({s}, '([a-z])')", "array_repeat({s}, 2)", "flatten(array({S}, {S}))",
    ],
    "I": ["array({i}, {i})", "transform({I}, e -> e + 1)", "map_values({m})", "coalesce({I}, array())", "array_sort({I})", "sequence(1, 3)"],
    "m": ["map('k', {i})", "map_filter({m}, (k, v) -> v > 1)", "transform_values({m}, (k, v) -> v + 1)", "coalesce({m}, map('z', 0))"],
    "x": ["named_struct('a', {i}, 'b', {s})", "struct({i} as a, {s} as b)", "coalesce({x}, named_struct('a', 0, 'b', ''))"],
}  # fmt: skip
"""What gives a value of a type for one row; ``{letter}`` is a value of that type."""

AGGREGATES: Mapping[str, Sequence[str]] = {
    "l": [
        "count(*)", "count({s})", "count(distinct {s})", "count(distinct {s}, {i})", "sum({i})", "sum(distinct {i})", "count_if({b})",
        "try_sum({i})", "approx_count_distinct({s})", "hll_sketch_estimate(hll_sketch_agg({i}))", "count(*) filter (where {b})",
        "theta_sketch_estimate(theta_sketch_agg({i}))", "sum(case when {b} then 1 else 0 end)::bigint", "regr_count({i}, {d})",
        "bitmap_count(bitmap_construct_agg(bitmap_bit_position(abs({i}))))", "sum({i}) filter (where {b})", "count(1)",
    ],
    "i": [
        "min({i})", "max({i})", "bit_and({i})", "bit_or({i})", "bit_xor({i})", "max_by({i}, struct({i}, {s}))", "max(coalesce({i}, -1))",
        "percentile_disc(0.25) within group (order by {i} desc)::int", "array_max(collect_set({i}))", "size(collect_list({s}))",
        "percentile_approx({i}, 0.5)", "approx_percentile({i}, 0.5, 100)", "array_min(array_agg({i}))", "mode({i}, true)",
    ],
    "d": [
        "avg({i})", "mean({i})", "median({i})", "percentile({i}, 0.5)", "percentile_cont(0.5) within group (order by {i})",
        "percentile_cont(0.25) within group (order by {i} desc)", "percentile({i}, 0.5, abs(coalesce({i}, 0)) + 1)", "std({i})",
        "stddev({i})", "stddev_pop({i})", "var_pop({i})", "var_samp({i})", "variance({i})", "stddev_samp({i})", "skewness({i})",
        "kurtosis({i})", "corr({i}, {i})", "covar_pop({i}, {i})", "covar_samp({i}, {i})", "try_avg({i})", "regr_avgx({i}, {i})",
        "regr_avgy({i}, {i})", "regr_slope({i}, {i})", "regr_intercept({i}, {i})", "regr_r2({i}, {i})", "regr_sxx({i}, {i})",
        "regr_sxy({i}, {i})", "regr_syy({i}, {i})", "max({d})", "min({d})",
    ],
    "p": ["sum({p})", "max({p})", "min({p})", "avg({p})", "sum({p}) - min({p})"],
    "s": [
        "min({s})", "max({s})", "listagg(distinct {s}) within group (order by {s})", "to_json(array_sort(collect_list({i})))",
        "listagg({s}, ',') within group (order by {s})", "string_agg({s}) within group (order by {s})", "max_by({s}, struct({s}, {i}))",
        "to_json(sort_array(array_agg({s})))", "min_by({s}, struct({i}, {s}))", "hex(bitmap_or_agg(bitmap_construct_agg(abs({i}) % 9)))",
        "schema_of_variant_agg(parse_json(to_json({x})))", "to_json(histogram_numeric({i}, 3))", "to_json(approx_top_k({i}))",
        "hex(count_min_sketch({i}, 0.5d, 0.5d, 1))", "kll_sketch_get_n_bigint(kll_sketch_agg_bigint({l}))::string",
        "listagg({s}) within group (order by {s} desc)",
    ],
    "b": ["any({b})", "some({b})", "every({b})", "bool_or({b})", "bool_and({b})", "max({b})", "count(*) > 1", "bool_or({i} > 5)"],
    "D": ["max({D})", "min({D})"],
    "t": ["max({t})", "min({t})"],
    "S": ["array_sort(collect_set({s}))", "sort_array(collect_list({s}))", "array(to_json(max(({i}, {s}))))"],
}  # fmt: skip
"""What gives a value of a type for a group of rows."""

WINDOWS: Mapping[str, Sequence[str]] = {
    "i": ["rank() over ({w} order by {i})", "dense_rank() over ({w} order by {s} desc)", "row_number() over ({w} order by {all})",
          "lag({i}) over ({w} order by {all})", "lead({i}, 1, 0) over ({w} order by {all})", "max({i}) over ({w})", "ntile(2) over ({w} order by {all})"],
    "l": ["count(*) over ({w})", "sum({i}) over ({w} order by {i})", "sum({i}) over ({w} order by {all} rows between 1 preceding and current row)"],
    "d": ["avg({i}) over ({w})", "cume_dist() over ({w} order by {i})", "percent_rank() over ({w} order by {i})"],
    "s": ["first_value({s}) over ({w} order by {all})", "nth_value({s}, 2) over ({w} order by {all})", "min({s}) over ({w})"],
}  # fmt: skip
"""What gives a value for a row and those of its partition; ``{all}`` are all columns that have an order."""

EQUAL = (
    ("i", "i"), ("s", "s"), ("i", "l"), ("l", "i"), ("i", "p"), ("l", "p"), ("i", "d"), ("d", "l"), ("D", "t"), ("t", "D"), ("D", "D"),
    ("p", "p"), ("t", "t"), ("d", "d"), ("b", "b"), ("S", "S"), ("x", "x"),
)  # fmt: skip
"""Types whose columns are compared in joins."""

TEXT_AND = {"number": "ilpd", "date_text": "Dt", "time_text": "tD", "yes": "b"}
"""Columns of texts that are values of other types, and the types whose columns they are compared with."""


@dataclass(frozen=True)
class Column:
    """A column that a scope has: how it is written, its type's letter, and its name."""

    text: str
    kind: str
    name: str = ""


def letter_of(kind: str) -> str:
    """The letter of a type."""
    plain = kind.split("(", maxsplit=1)[0]
    return next(letter for letter, each in KINDS.items() if each == plain)


@dataclass
class Drawer:
    """Draws expressions.

    Attributes:
        random: Where chance comes from.
        constants: Further expressions without a column by their type's letter, such as documented examples.
    """

    random: Random
    constants: Mapping[str, Sequence[str]]

    def value(self, kind: str, columns: Sequence[Column], depth: int = 2) -> Part:
        """An expression of a type over these columns."""
        random = self.random
        own = [each.text for each in columns if each.kind == kind]
        chance = random.random()
        if own and (depth <= 0 or chance < 0.5):
            return part(random.choice(own))
        if depth <= 0 or chance < 0.6:
            return part(random.choice(LITERALS[kind]))
        if chance < 0.66 and self.constants.get(kind):
            return part(f"({random.choice(self.constants[kind])})", instead=(LITERALS[kind][0],))
        return self.filled(random.choice(PLAIN[kind]), columns, depth)

    def filled(self, template: str, columns: Sequence[Column], depth: int = 2, **words: str) -> Part:
        """A template filled with expressions; ``words`` are texts for its longer names."""

        def fill(word: str) -> str | Part:
            return words[word] if word in words else self.value(word, columns, depth - 1)

        found = filled(template, fill)
        simple = tuple(
            each for each in found.parts if isinstance(each, Part) and str(each) in {c.text for c in columns}
        )
        return Part(("(", found, ")"), (*simple,))

    def aggregate(self, kind: str, columns: Sequence[Column]) -> Part:
        """An aggregate of a type over these columns."""
        return self.filled(self.random.choice(AGGREGATES[kind]), columns)

    def window(self, kind: str, columns: Sequence[Column]) -> Part:
        """A window function of a type."""
        ordered = [each.text for each in columns if each.kind != "m"] or ["1"]
        keys = [each.text for each in columns if each.kind in "sibDl"]
        partition = f"partition by {self.random.choice(keys)}" if keys and self.random.random() < 0.9 else ""
        template = self.random.choice(WINDOWS[kind]).replace("{w}", partition)
        return self.filled(template, columns, 1, all=", ".join(ordered))

    def condition(self, columns: Sequence[Column]) -> Part:
        """A condition."""
        found = self.filled(self.random.choice(PLAIN["b"]), columns)
        return Part(found.parts, ("true",))

    def equal(self, ours: Sequence[Column], theirs: Sequence[Column]) -> Part | None:
        """An equality of columns of both sides, of one type or of two that Spark compares."""
        random = self.random
        if random.random() < 0.5:
            sides = [(ours, theirs), (theirs, ours)]
            random.shuffle(sides)
            for texts, others in sides:
                pairs = [
                    (text, other)
                    for text in texts
                    if text.name in TEXT_AND
                    for other in others
                    if other.kind in TEXT_AND[text.name]
                ]
                if pairs:
                    text, other = random.choice(pairs)
                    return part(f"{text.text} {random.choice(['=', '=', '=', '<=>'])} {other.text}")
        pairs = [
            (a, b)
            for a in ours
            for b in theirs
            if (a.kind, b.kind) in EQUAL and a.name not in TEXT_AND and b.name not in TEXT_AND
        ]
        if not pairs:
            return None
        named = [(a, b) for a, b in pairs if a.name == b.name]
        first, second = random.choice(named if named and random.random() < 0.4 else pairs)
        if random.random() < 0.15:
            return part(f"coalesce({first.text}, {first.text}) = {second.text}")
        return part(f"{first.text} {random.choice(['=', '=', '==', '<=>'])} {second.text}")


THROWING = (
    ("cast({c} as int)", "{c} rlike '^[0-9]+$'", "i"),
    ("int({c}) + 1", "{c} rlike '^[0-9]+$'", "i"),
    ("10 div cast({c} as bigint)", "{c} rlike '^[1-9]+$'", "l"),
)
"""An expression that fails for texts that are no number, the condition that leaves these out, and its type."""
