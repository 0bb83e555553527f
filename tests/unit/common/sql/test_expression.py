"""SQL text is read for what it names and does, without Spark, as Spark would read it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import SqlError
from common.sql.expression import (
    ELEMENT,
    Facts,
    analyze,
    has_sliding_window,
    null_for_null_times,
    window_times,
    with_names,
)

COLUMNS = [
    ("magnitude", [("magnitude",)]),
    ("timestamp_millis(properties.time)", [("properties", "time")]),
    ("`a b`.`c.d`", [("a b", "c.d")]),
    ("a + b * a", [("a",), ("b",)]),
    ("a.b.c.d.e.f + 1", [("a", "b", "c", "d", "e", "f")]),
    ("a[0].b", [("a", ELEMENT, "b")]),
    ("a['k'].b", [("a", "k", "b")]),
    ("element_at(m, 'k').b", [("m", "k", "b")]),
    ("m[k].b", [("m", ELEMENT, "b"), ("k",)]),
    ("_kafka.headers[i + 1].key", [("_kafka", "headers", ELEMENT, "key"), ("i",)]),
    ("struct(a as renamed, b)", [("a",), ("b",)]),
    ("cast(a as struct<x: int>)", [("a",)]),
    ("timestampadd(day, 1, a)", [("a",)]),
    ("a like any ('x', 'y')", [("a",)]),
    ("date '2020-01-01' + interval 1 day", []),
    ("count(*)", []),
    ("upper('text')", []),
]


@pytest.mark.parametrize(("sql", "columns"), COLUMNS)
def test_columns_are_found_with_the_fields_taken_from_them(sql: str, columns: list[tuple[str, ...]]) -> None:
    assert analyze(sql).columns == tuple(columns)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("filter(xs, x -> x.a > y)", [("xs",), ("y",)]),
        ("transform(xs, X -> x.a + X.b['c'])", [("xs",)]),
        ("aggregate(xs, 0L, (acc, x) -> acc + x, total -> total * k)", [("xs",), ("k",)]),
        ("transform(xs, x -> transform(x.ys, y -> y.z + x.w + q))", [("xs",), ("q",)]),
        ("map_filter(m, (k, v) -> v > k)", [("m",)]),
    ],
)
def test_variables_of_a_lambda_are_no_columns(sql: str, columns: list[tuple[str, ...]]) -> None:
    assert analyze(sql).columns == tuple(columns)


@pytest.mark.parametrize(
    "word", ["order", "from", "select", "user", "desc", "when", "comment", "set", "values"]
)
def test_a_keyword_alone_is_a_column_as_it_is_to_spark(word: str) -> None:
    assert analyze(word).path == (word,)
    assert analyze(f"value.{word}").path == ("value", word)
    assert analyze(f"upper(`{word}`)").columns == ((word,),)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("count(*)", "count"),
        ("max_by(a, b)", "max_by"),
        ("percentile_approx(a, 0.5)", "percentile_approx"),
        ("any(a)", "any"),
        ("first(a, true)", "first"),
        ("first(a) ignore nulls", "first"),
        ("sum(a) filter (where b)", "sum"),
        ("percentile_cont(0.5) within group (order by a)", "percentile_cont"),
        ("listagg(a, ',') within group (order by b)", "listagg"),
        ("try_sum(a) + 1", "try_sum"),
    ],
)
def test_aggregates_are_known_by_their_name_in_spark(sql: str, name: str) -> None:
    facts = analyze(sql)
    assert facts.aggregates == (name,)
    assert facts.outside_aggregates == ()


@pytest.mark.parametrize(
    ("sql", "what", "names"),
    [
        ("row_number() over (order by a)", "windows", ("row_number",)),
        ("sum(a) over (partition by b)", "windows", ("sum",)),
        ("lag(a)", "windows", ("lag",)),
        ("explode(a)", "generators", ("explode",)),
        ("json_tuple(a, 'b')", "generators", ("json_tuple",)),
        ("rand() < 0.5", "non_deterministic", ("rand",)),
        ("uuid()", "non_deterministic", ("uuid",)),
        ("current_timestamp", "non_deterministic", ("current_timestamp",)),
        ("current_date()", "non_deterministic", ("current_date",)),
        ("now()", "non_deterministic", ("now",)),
        ("unix_timestamp()", "non_deterministic", ("unix_timestamp",)),
        ("aes_encrypt(a, b)", "non_deterministic", ("aes_encrypt",)),
        ("aes_encrypt(a, b, 'CBC', 'PKCS', '')", "non_deterministic", ("aes_encrypt",)),
        ("monotonically_increasing_id()", "non_deterministic", ("monotonically_increasing_id",)),
        ("count(distinct a, b)", "distinct", ("count",)),
        ("sum(max(a))", "nested", ("max",)),
    ],
)
def test_what_a_stream_may_not_do_is_named(sql: str, what: str, names: tuple[str, ...]) -> None:
    assert getattr(analyze(sql), what) == names


def test_what_is_given_a_time_is_no_clock() -> None:
    assert analyze("unix_timestamp(a, 'yyyy')").non_deterministic == ()


def test_what_is_encrypted_without_chance_is_the_same_again() -> None:
    for sql in ("aes_encrypt(a, b, 'ecb')", "aes_encrypt(a, b, 'GCM', 'DEFAULT', unhex(left(md5(a), 24)))"):
        assert analyze(sql).non_deterministic == ()


def test_an_aggregate_over_other_rows_is_no_aggregate() -> None:
    assert analyze("sum(a) over (partition by b)").aggregates == ()


@pytest.mark.parametrize(
    "sql", ["(select 1)", "select a from t", "a in (select b from t)", "exists(select 1)"]
)
def test_a_subquery_is_seen_and_its_columns_are_its_own(sql: str) -> None:
    facts = analyze(sql)
    assert facts.subquery
    assert ("b",) not in facts.columns


def test_exists_over_an_array_is_no_subquery() -> None:
    assert not analyze("exists(xs, x -> x is null)").subquery


def test_an_alias_and_a_star_are_told() -> None:
    assert analyze("a + 1 as b").alias == "b"
    assert analyze("a b").alias == "b"
    assert analyze("*").star
    assert analyze("a.*").star
    assert not analyze("struct(*)").star


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "is empty; write a SQL expression"),
        ("  ", "is empty; write a SQL expression"),
        ("a +", "ends too early: something is missing at its end"),
        ("max(a", "ends too early: a ')' is missing at its end"),
        ("a)", "has a ')' too many"),
        ("a, b", "is a list of expressions; write one, or struct(…) of them"),
        ("a;", "has a ';' in it; write one expression and leave it out"),
        ("'abc", "a quote is opened and never closed; the pairs are '…', \"…\", `…` and /* … */"),
        ("a -- why", "ends in a comment (--), which would hide what follows; leave it out"),
        ("cast(a as intger)", "cannot be read at 'intger' (column 11); it is no type of Spark's"),
        ("größe + 1", "has the name größe; one with other letters than a to z needs backquotes"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(sql: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        analyze(sql)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("sql", "place", "word"),
    [
        ("a b c", "'c' (column 5)", "c"),
        ("a +\nb c d", "'d' (line 2, column 5)", "d"),
        ("drop table x", "'drop' (column 1)", "drop"),
    ],
)
def test_a_syntax_error_names_the_word_and_where_it_stands(sql: str, place: str, word: str) -> None:
    with pytest.raises(SqlError, match="cannot be read at ") as caught:
        analyze(sql)
    assert f"cannot be read at {place};" in str(caught.value)
    assert caught.value.word == word


def test_a_comment_between_lines_is_fine() -> None:
    assert analyze("a -- the first\n + b").columns == (("a",), ("b",))


@given(st.text(max_size=40))
def test_any_text_is_either_read_or_refused_in_words(text: str) -> None:
    with suppress(SqlError):
        assert isinstance(analyze(text), Facts)


@given(st.text(st.characters(codec="utf-8", exclude_characters="`\0"), min_size=1, max_size=20))
def test_any_name_in_backquotes_is_that_column(name: str) -> None:
    assert analyze(f"`{name}` + 1").columns == ((name,),)


@pytest.mark.parametrize(
    ("sql", "times", "slides"),
    [
        ("customer", (), False),
        ("`window`.start", (), False),
        ("window_time(w)", (), False),
        ("window(at, '10 seconds').start", ("at",), False),
        ("window(a.at, '1 hour', '1 hour').end", ("a.at",), False),
        ("date(window(cast(t as timestamp), '1 hour', '30 minutes').start)", ("cast(t as timestamp)",), True),
        ("coalesce(session_window(at, '5 minutes').end, window(b, '1 day').end)", ("at", "b"), False),
    ],
)
def test_the_times_of_windows_are_found(sql: str, times: tuple[str, ...], slides: bool) -> None:  # noqa: FBT001
    assert set(window_times(sql)) == set(times)
    assert has_sliding_window(sql) == slides


@pytest.mark.parametrize(
    ("sql", "safe"),
    [
        ("`window`.start", "`window`.start"),
        ("window_time(w)", "window_time(w)"),
        ("'window(at'", "'window(at'"),
        (
            "window(f(a, b[0]), '1 hour').start",
            (
                "case when (f(a, b[0])) is not null then "
                "window(coalesce(f(a, b[0]), date'1970-01-01'), '1 hour').start end"
            ),
        ),
        (
            "date(WINDOW ( at , '1 day', '1 day', ')').end) > d",
            (
                "case when (at) is not null then "
                "date(WINDOW ( coalesce(at, date'1970-01-01') , '1 day', '1 day', ')').end) > d end"
            ),
        ),
    ],
)
def test_a_window_gets_a_time_where_its_own_is_null(sql: str, safe: str) -> None:
    assert null_for_null_times(sql) == safe


@pytest.mark.parametrize(
    ("sql", "replaced"),
    [
        ("count(*) / (a - `A`)", "count(*) / (w.s - w.s)"),
        ("s.a + a(1) + 'a' + ab /* a */ -- a", "s.a + a(1) + 'a' + ab /* a */ -- a"),
        ("max(ä, a)", "max(ä, w.s)"),
        ("a:a.a + a::int", "w.s:a.a + w.s::int"),
        ("'a", "'a"),
    ],
)
def test_names_of_columns_are_replaced_and_nothing_else(sql: str, replaced: str) -> None:
    assert with_names(sql, {"a": "w.s"}) == replaced
