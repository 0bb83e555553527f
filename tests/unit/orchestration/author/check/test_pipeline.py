"""A pipeline is judged whole and without Spark: every mistake has its place and the right word beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from common.config.settings import load_settings
from common.declare import (
    Aggregate,
    Avro,
    Expect,
    Json,
    Lookup,
    Meets,
    Pipeline,
    Protobuf,
    Quality,
    Rule,
    Silver,
    Topic,
    Upsert,
)
from common.declare.declared import FAULTY
from common.engine_reasons import ENGINE_REASONS
from common.errors import PipelineError
from orchestration.access.declaration.context import context
from orchestration.access.declaration.load_file import load_draft, load_pipeline
from orchestration.author.check.pipeline import (
    check,
    draft_problems,
    findings,
    unchecked,
)
from orchestration.author.check.settings import setting_problems
from orchestration.cli.author import check as command
from orchestration.cli.options import register
from orchestration.cli.run import run
from tests.support.oracles.protobuf import REFUND, descriptors

ROOT = Path(__file__).parents[5]
EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"
VALUE = "id string, properties struct<mag: double, time: bigint, order: int>, tags array<struct<k: string>>"
COLUMNS = {
    "quake_id": "id",
    "event_at": "timestamp_millis(properties.time)",
    "magnitude": "properties.mag",
    "raw": "properties",
}


def silver(**changed: Any) -> Silver:
    given: dict[str, Any] = {
        "reads": "bronze.quakes",
        "value": Json(VALUE),
        "columns": COLUMNS,
        "key": ["quake_id"],
        "event_time": "event_at",
        "watermark": "1 day",
    }
    return Silver("quakes", **given | changed)


def with_column(sql: str) -> Pipeline:
    return pipeline(silver(columns=COLUMNS | {"x": sql}))


def aggregate(**changed: Any) -> Aggregate:
    given = {"reads": "silver.quakes", "by": ["quake_id"], "measures": {"n": "count(*)"}}
    return Aggregate("counts", **given | changed)


def upsert(**changed: Any) -> Upsert:
    return Upsert(
        "latest", **{"reads": "silver.quakes", "key": ["quake_id"], "newest_by": ["event_at"]} | changed
    )


def pipeline(*tables: Silver | Aggregate | Upsert, quality: tuple[Quality, ...] = ()) -> Pipeline:
    return Pipeline(
        "p",
        bronze=[Topic("quakes")],
        silver=[table for table in tables if isinstance(table, Silver)],
        gold=[table for table in tables if not isinstance(table, Silver)],
        quality=quality,
    )


def told(checked: Pipeline) -> list[str]:
    return [f"{problem.place}: {problem.message}" for problem in check(checked)]


def test_a_right_pipeline_has_no_problem() -> None:
    suite = Quality("gold.latest", [Expect("expect_column_values_to_not_be_null", {"column": "magnitude"})])
    assert told(pipeline(silver(), aggregate(), upsert(), quality=(suite,))) == []


def test_the_example_has_no_problem() -> None:
    assert check(load_pipeline(EXAMPLE)) == ()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("idd", "the value has no 'idd'; did you mean 'id'?"),
        ("properties.tim", "'properties' has no field 'tim'; did you mean 'time'?"),
        ("time", "the value has no 'time'; did you mean 'properties.time'?"),
        ("properties.mag.x", "'properties.mag' is double, which has no field 'x'"),
        ("tags[0].kk", "'tags[]' has no field 'kk'; did you mean 'k'?"),
        ("tags.kk", "'tags' has no field 'kk'; did you mean 'k'?"),
        ("_kafka.ofset", "'_kafka' has no field 'ofset'; did you mean 'offset'?"),
        ("_kafka.headers[0].keyy", "'_kafka.headers[]' has no field 'keyy'; did you mean 'key'?"),
        ("_kafkaa.offset", "the value has no '_kafkaa'; did you mean '_kafka'?"),
        ("magnitude", "'magnitude' is another column of this table; a column sees only the value"),
        (
            "timestamp_milis(1)",
            "calls timestamp_milis(), which Spark does not have; did you mean 'timestamp_millis'?",
        ),
        (
            "my_udf(id)",
            (
                "calls my_udf(), which Spark does not have; write one of Spark's, or name the extension that "
                "adds it in "
                "the setting spark.conf.spark.sql.extensions"
            ),
        ),
        ("max(id)", "max() is an aggregate, but this is evaluated row by row; put it in gold's measures"),
        ("rank() over (order by id)", "rank() looks at other rows (over …), which a stream cannot"),
        ("(select 1)", "has a subquery (select …); only the row's own columns can be used"),
        (
            "explode(tags)",
            "explode() returns several rows for one; keep the array, or use transform() on it",
        ),
        (
            "uuid()",
            ("calls uuid(), whose value differs each time; compute it from columns, as with sha2()"),
        ),
        (
            "aes_encrypt(id, 'abcdefghijklmnop')",
            (
                "calls aes_encrypt(), whose value differs each time; give it an initialisation vector of the "
                "row: aes_encrypt(value, key, 'GCM', 'DEFAULT', unhex(left(sha2(id, 256), 24)))"
            ),
        ),
        (
            "now()",
            "calls now(), whose value differs each time; use a column of the row instead",
        ),
        ("id as y", "ends in a name of its own, 'y'; leave it out (or is an operator missing?)"),
        ("*", "* is not one value; name a field"),
        ("null", "has no type; cast the null, as in cast(null as string)"),
        ("id || '\ud800'", "the SQL has a lone surrogate, which is no character; leave it out"),
        ("(" * 500 + "id" + ")" * 500, "the SQL is nested too deeply to be read; divide it"),
        ("id +", "the SQL ends too early: something is missing at its end"),
    ],
)
def test_a_wrong_silver_column_is_told_in_words(sql: str, message: str) -> None:
    found = [text for text in told(with_column(sql)) if "write get(…, index)" not in text]
    assert found == [f"silver.quakes, column 'x': {message}"]


def test_a_field_of_a_text_is_no_other_column() -> None:
    """Nor is a name that there is not, where it is the column's own."""
    columns = COLUMNS | {"id": "id.name", "quake": "id", "tag": "quake", "order_id": "order_id"}
    assert told(pipeline(silver(columns=columns))) == [
        "silver.quakes, column 'id': 'id' is string, which has no field 'name'",
        "silver.quakes, column 'tag': 'quake' is another column of this table; a column sees only the value",
        "silver.quakes, column 'order_id': the value has no 'order_id'; known: id, properties, tags",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rules": [Rule("x", "quake_id > 0 and raw.mag > 1")]},
            (
                "rule 'x': compares quake_id (string) and a number: each text is read as a number, and one "
                "that is none stops the query; write try_cast(… as int)"
            ),
        ),
        (
            {"rules": [Rule("x", "quake_id and magnitude > 1")]},
            (
                "rule 'x': has quake_id (string) as a condition: each text is read as a boolean, and one "
                "that is none stops the query; write try_cast(… as boolean)"
            ),
        ),
        (
            {"columns": COLUMNS | {"size": "case when properties.mag > 5 then 'big' else 0 end"}},
            (
                "column 'size': has in one case 'big' and a number: 'big' is no number, so that the first "
                "row stops the query"
            ),
        ),
        (
            {"columns": COLUMNS | {"event_at": "upper(id)"}},
            (
                "event_time 'event_at' is of type string; convert it to a timestamp, as in "
                "timestamp_millis(…) or try_to_timestamp(…)"
            ),
        ),
        (
            {"columns": COLUMNS | {"day": "date'today'"}},
            "column 'day': has the time 'today', whose value differs each time; use a column of the row",
        ),
        (
            {"columns": COLUMNS | {"by": "current_user()"}},
            "column 'by': calls current_user(), whose value differs each time; use a column of the row",
        ),
        (
            {"columns": COLUMNS | {"x": "abs(tags)"}},
            "column 'x': calls abs() with tags (array<struct<k:string>>)",
        ),
    ],
)
def test_types_and_words_of_an_expression_are_checked(changes: dict[str, Any], message: str) -> None:
    (found,) = told(pipeline(silver(**changes)))
    assert found.removeprefix("silver.quakes").lstrip(",: ").startswith(message)


def test_a_comparison_with_null_is_a_warning() -> None:
    """In a rule, in gold and in a suite."""
    suite = Quality("gold.latest", [Meets("magnitude <> null")])
    checked = pipeline(
        silver(rules=[Rule("r", "quake_id = null")]), upsert(where="null < magnitude"), quality=(suite,)
    )
    found = findings(checked)
    assert found.problems == ()
    assert [(each.place, each.code) for each in found.doubts] == [
        ("silver.quakes, rule 'r'", "MED-1211"),
        ("gold.latest, where", "MED-1211"),
        ("quality of gold.latest, Meets", "MED-1211"),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "ID",
        "Properties.MAG",
        "get(_kafka.headers, 0).value",
        "_KAFKA.Timestamp",
        "properties['mag']",
        "tags.k",
        "get(tags, 0).k",
        "transform(tags, t -> t.k || id)",
        "cast(null as string)",
    ],
)
def test_what_spark_would_take_is_taken(sql: str) -> None:
    assert told(with_column(sql)) == []


def test_a_function_that_something_of_the_users_may_add_is_taken() -> None:
    """A Spark extension, or a function that registers it; a slip of the pen is told all the same."""
    added = with_column("st_buffer(id) || uper(id)")
    (slip,) = check(added, load_settings(overrides=["spark.conf.spark.sql.extensions=a.Sedona"]))
    assert "did you mean 'upper'?" in slip.message
    hooked = silver(columns=lambda frame: frame, rules=[Rule("r", "my_udf(anything) > 1")])
    assert told(pipeline(hooked)) == []


def test_a_keyword_that_is_a_column_is_to_be_quoted() -> None:
    (message,) = told(pipeline(silver(value=Json(f"{VALUE}, then int"), columns=COLUMNS | {"x": "1 + then"})))
    assert message.endswith("then is a word of SQL: write `then` in backquotes for the column")


def test_rules_see_the_tables_columns_and_kafkas_coordinates() -> None:
    good = Rule("good", "magnitude < 10 and raw.mag < 10 and _kafka.offset >= 0")
    bad = Rule("bad", "magnitud is null or properties.mag > 1 or raw.magg > 1")
    assert told(pipeline(silver(rules=[good, bad]))) == [
        "silver.quakes, rule 'bad': silver.quakes has no 'magnitud'; did you mean 'magnitude'?",
        (
            "silver.quakes, rule 'bad': silver.quakes has no 'properties'; "
            "known: event_at, magnitude, quake_id, raw"
        ),
        "silver.quakes, rule 'bad': 'raw' has no field 'magg'; did you mean 'mag'?",
    ]


def test_rules_are_told_apart_from_each_other_and_from_the_engines_reasons() -> None:
    rules = [
        Rule("known", "magnitude > 0"),
        Rule("known", "magnitude > 1"),
        Rule("null_key", "magnitude > 2"),
    ]
    assert told(pipeline(silver(rules=rules))) == [
        (
            "silver.quakes, rule 'known': is declared twice; a rule's name "
            "is the reason of its rows: rename one"
        ),
        "silver.quakes, rule 'null_key': has the name of a reason that the engine itself gives; rename it",
    ]


def test_a_lookup_is_known_to_rules_and_has_a_name_of_its_own() -> None:
    asked = Lookup("kinds", "gold.kinds", on={"kind": "lower(quake_id)"})
    rules = [Rule("known", "kinds.kind is not null and kinds.anything > magnitude")]
    assert told(pipeline(silver(lookups=[asked], rules=rules))) == []
    wrong = [Lookup("magnitude", "gold.kinds", on={"kind": "quak_id"}), asked, asked]
    assert told(pipeline(silver(lookups=wrong, rules=rules))) == [
        "silver.quakes, lookup 'magnitude': has the name of a column or of another lookup; rename it",
        (
            "silver.quakes, lookup 'magnitude', on 'kind': silver.quakes has no 'quak_id'; "
            "did you mean 'quake_id'?"
        ),
        "silver.quakes, lookup 'kinds': has the name of a column or of another lookup; rename it",
    ]
    sliding = Lookup("kinds", "gold.kinds", on={"kind": "window(event_at, '1 hour', '30 minutes').start"})
    assert told(pipeline(silver(lookups=[sliding], rules=rules))) == [
        (
            "silver.quakes, lookup 'kinds', on 'kind': a window with a slide gives several rows for one; "
            "leave the slide out"
        ),
    ]
    unasked = told(pipeline(silver(rules=rules)))
    assert unasked
    assert all("silver.quakes has no 'kinds'" in fault for fault in unasked)


def test_an_aggregate_over_a_table_whose_rows_are_replaced_is_refused() -> None:
    newest = silver(dedupe="exact", keep="newest")
    assert told(Pipeline("p", bronze=[Topic("quakes")], silver=[newest], gold=[upsert()])) == []
    [fault] = told(Pipeline("p", bronze=[Topic("quakes")], silver=[newest], gold=[aggregate(), upsert()]))
    assert fault.startswith("gold.counts: reads silver.quakes, which keeps the newest row of a key: ")


def test_the_engines_reasons_are_those_that_silver_writes() -> None:
    from silver.judge import reasons_and_verdict as rules
    from silver.read.poison import POISON

    source = (ROOT / "common" / "java" / "sources" / "medallion" / "faults" / "Reasons.java").read_text()
    written = set(re.findall(r'static final String \w+ = "(\w+)";', source))
    assert len(written) == 30
    assert (
        written | {rules.NULL_KEY, rules.NULL_EVENT_TIME, rules.FUTURE_EVENT_TIME, "column_failed", POISON}
        == ENGINE_REASONS
    )
    page = (ROOT / "docs" / "records" / "what-happens-to-a-row.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^#### `(\w+)`$", page, flags=re.MULTILINE)) == sorted(ENGINE_REASONS)


def test_the_column_that_bounds_the_event_time_is_a_timestamp() -> None:
    wrong = silver(columns=COLUMNS | {"at": "properties.time"}, max_future_after="at")
    assert told(pipeline(wrong)) == [
        (
            "silver.quakes: max_future_after 'at' is of type bigint; convert it to a timestamp, "
            "as in timestamp_millis(…) or try_to_timestamp(…)"
        )
    ]
    (missing,) = told(pipeline(silver(max_future_after="receivd_at")))
    assert missing.startswith("silver.quakes: max_future_after 'receivd_at'")


def test_key_and_event_time_are_columns_of_the_right_type() -> None:
    wrong = silver(columns=COLUMNS | {"at": "properties.time"}, key=["quake_i", "raw"], event_time="at")
    assert told(pipeline(wrong)) == [
        "silver.quakes: key 'quake_i' is no column of silver.quakes; did you mean 'quake_id'?",
        "silver.quakes: key 'raw' is of type struct; a key consists of plain values: use fields of it",
        (
            "silver.quakes: event_time 'at' is of type bigint; convert it to a timestamp, "
            "as in timestamp_millis(…) or try_to_timestamp(…)"
        ),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("_x", "column '_x' begins with '_', as only the pipeline's own columns may; rename it"),
        (
            "Magnitude",
            "column 'Magnitude' differs from 'magnitude' only by case, which Spark ignores; rename one",
        ),
        ("a\ud800", "column 'a\\ud800' has a lone surrogate in its name, which is no character; rename it"),
        ("a b", "column 'a b' contains ' ', which Delta tables refuse; use letters, digits and underscores"),
    ],
)
def test_a_column_name_that_no_table_can_have_is_told(name: str, message: str) -> None:
    assert told(pipeline(silver(columns=COLUMNS | {name: "id"}))) == [f"silver.quakes: {message}"]


def test_a_wrong_schema_is_told_at_its_own_line_and_does_not_spread() -> None:
    wrong = VALUE.replace("id string", "id strng")
    assert told(pipeline(silver(value=Json(wrong)), upsert())) == [
        "silver.quakes, value: field 'id': 'strng' is no type of Spark's; did you mean 'string'?"
    ]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("magnitude", "has no aggregate; a measure is one value per group, such as count(*) or max(x)"),
        (
            "count(distinct raw.mag)",
            (
                "count(distinct …) cannot be kept up to date by a stream; write approx_count_distinct(x), "
                'or size(collect_set(x)) for an exact count of few values, or take mode="recompute"'
            ),
        ),
        ("sum(max(magnitude))", "max() is inside another aggregate; a measure aggregates once"),
        (
            "max(magnitude) - magnitude",
            "'magnitude' is outside of any aggregate; write max(magnitude), or add it to by",
        ),
        ("coumt(*)", "calls coumt(), which Spark does not have; did you mean 'count'?"),
        ("max(magnitud)", "silver.quakes has no 'magnitud'; did you mean 'magnitude'?"),
        ("max(_kafka.offset)", "silver.quakes has no '_kafka'; did you mean '_kafka_topic'?"),
    ],
)
def test_a_wrong_measure_is_told_in_words(sql: str, message: str) -> None:
    assert told(pipeline(silver(), aggregate(measures={"m": sql}))) == [
        f"gold.counts, measure 'm': {message}"
    ]


def test_a_measure_may_use_what_it_is_grouped_by_and_kafkas_coordinates() -> None:
    measures = {
        "m": "quake_id || max(_kafka_offset)",
        "t": "max(_ingested_at)",
        "u": "size(collect_set(magnitude))",
    }
    assert told(pipeline(silver(), aggregate(measures=measures))) == []


def test_groups_and_filters_are_row_by_row() -> None:
    wrong = aggregate(by={"g": "max(magnitude)"}, where="count(*) > 1")
    assert told(pipeline(silver(), wrong)) == [
        (
            "gold.counts, where: count() is an aggregate, but this is evaluated row by row; "
            "put it in gold's measures"
        ),
        (
            "gold.counts, by 'g': max() is an aggregate, but this is "
            "evaluated row by row; put it in gold's measures"
        ),
    ]


def test_a_group_and_a_measure_need_two_names() -> None:
    assert told(pipeline(silver(), aggregate(measures={"quake_id": "count(*)"}))) == [
        "gold.counts: column 'quake_id' is declared twice; rename one"
    ]


def test_an_upsert_keeps_its_key_and_its_order() -> None:
    assert told(pipeline(silver(), upsert(columns=["magnitude", "event_at"], newest_by=["evnt_at"]))) == [
        "gold.latest: key 'quake_id' is not among its columns; add it to columns",
        "gold.latest: newest_by 'evnt_at' is not among its columns; did you mean 'event_at'?",
    ]
    assert told(pipeline(silver(), upsert(key=["quake"]))) == [
        "gold.latest: key 'quake' is no column of silver.quakes; did you mean 'quake_id'?"
    ]


def test_tables_read_the_layer_before_theirs() -> None:
    assert told(pipeline(silver(reads="bronze.quake"))) == [
        (
            "silver.quakes: reads 'bronze.quake', which the pipeline "
            "does not declare; did you mean 'bronze.quakes'?"
        )
    ]
    assert told(pipeline(silver(), upsert(reads="bronze.quakes"))) == [
        (
            "gold.latest: reads 'bronze.quakes', but an Upsert reads a silver table; "
            "did you mean 'silver.quakes'?"
        )
    ]


def test_a_ring_is_named_once() -> None:
    one, two = aggregate(reads="gold.latest"), upsert(reads="gold.counts")
    assert told(pipeline(one, two)) == [
        (
            "gold.counts: reads in a cycle: gold.counts -> gold.latest -> gold.counts; "
            "let one of its tables read a silver table"
        )
    ]
    assert told(pipeline(silver(reads="silver.quakes"))) == [
        "silver.quakes: reads itself; let one of its tables read a bronze table"
    ]


def test_a_table_is_declared_once_but_a_topic_may_be_read_twice() -> None:
    twice = Pipeline("p", bronze=[Topic("a"), Topic("b", topics=["a"]), Topic("a", topics=["c"])])
    (problem,) = check(twice)
    assert problem.place == "bronze.a"
    assert problem.message.startswith("is declared twice, first at ")


def test_a_suite_is_on_a_table_and_columns_that_exist() -> None:
    column = "expect_column_values_to_be_unique"
    suites = (
        Quality("silver.quake", []),
        Quality("bronze.quakes", []),
        Quality(
            "gold.latest", [Expect(column, {"column": "quakeid"}), Expect(column, {"column": "Quake_Id"})]
        ),
        Quality(
            "silver.quakes",
            [Expect("expect_compound_columns_to_be_unique", {"column_list": ["quake_id", "b"]})],
        ),
    )
    assert told(pipeline(silver(), upsert(), quality=suites)) == [
        "quality of silver.quake: 'silver.quake' is not declared; did you mean 'silver.quakes'?",
        (
            "quality of bronze.quakes: 'bronze.quakes' is bronze, raw "
            "bytes; a suite checks a silver or gold table; "
            "did you mean 'silver.quakes'?"
        ),
        (
            f"quality of gold.latest, {column}: column 'quakeid' is no "
            f"column of gold.latest; did you mean 'quake_id'?"
        ),
        (
            f"quality of gold.latest, {column}: column 'Quake_Id' is no "
            f"column of gold.latest; did you mean 'quake_id'?"
        ),
        (
            "quality of silver.quakes, expect_compound_columns_to_be_unique: column_list 'b' is no column of "
            "silver.quakes; known: event_at, magnitude, quake_id, raw"
        ),
    ]


def test_what_depends_on_a_function_is_left_for_the_start() -> None:
    hooked = silver(columns=lambda frame: frame, key=["whatever"], rules=[Rule("r", "anything > 1")])
    declared = pipeline(hooked, upsert(key=["x"], newest_by=["y"]))
    assert told(declared) == []
    assert unchecked(declared) == ("silver.quakes",)


def test_a_problem_names_the_line_of_its_own_declaration() -> None:
    rule = Rule("bad", "nothing > 1")
    (problem,) = check(pipeline(silver(rules=[rule])))
    assert problem.source.startswith(f"{Path(__file__).relative_to(ROOT)}:")


@given(st.sampled_from(["magnitude", "event_at", "quake_id"]), st.data())
def test_any_column_with_one_letter_changed_is_told_and_the_right_one_named(
    name: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    wrong = f"{name[:at]}x{name[at + 1 :]}"
    assert told(pipeline(silver(), aggregate(where=f"{wrong} is not null"))) == [
        f"gold.counts, where: silver.quakes has no {wrong!r}; did you mean {name!r}?"
    ]


@pytest.fixture(name="cli")
def _cli() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app, command)
    return app


def test_the_command_prints_what_reads_what_and_ends_well(cli: typer.Typer) -> None:
    result = CliRunner().invoke(cli, ["check", str(EXAMPLE), "--set", "kafka.options.sasl.password=hunter2"])
    assert result.exit_code == 0
    assert "topic quakes -> bronze.quakes" in result.stdout
    assert "gold.quakes_latest" in result.stdout
    assert "kafka.options.sasl.password = (set)" in result.stdout
    assert "hunter2" not in result.stdout


def test_alerts_and_lineage_are_shown_without_their_addresses_and_keys(cli: typer.Typer) -> None:
    """The sections that have no default of their own: rules and channels by name, a transport."""
    settings = (
        "alerts.channels.team=json://user:geheim@host/x",
        "alerts.rules.dead={when: query_dead, for: 1 minute, channels: [team]}",
        "lineage.openlineage={type: http, url: http://host, auth: {type: api_key, apiKey: geheim}}",
    )
    given = [word for setting in settings for word in ("--set", setting)]
    for more in ([], ["--json"]):
        result = CliRunner().invoke(cli, ["check", str(EXAMPLE), *more, *given])
        assert result.exit_code == 0, result.exception
        assert "geheim" not in result.stdout
        for name in ("alerts.channels.team", "alerts.rules.dead.for", "lineage.openlineage.auth"):
            assert name in result.stdout


@pytest.mark.parametrize(
    ("was", "becomes", "part"),
    [
        ('"a.b"', '"a.c"', "'a' has no field 'c'; known: b"),
        ('Topic("t")', 'Topic("t", topics=[])', "topics: is empty; name at least one (got [])"),
        ("silver=", "sliver=", "'sliver' is not a field of Pipeline; did you mean 'silver'?"),
    ],
)
def test_the_command_ends_with_2_and_tells_all_the_same_way(
    cli: typer.Typer, tmp_path: Path, was: str, becomes: str, part: str
) -> None:
    text = (
        "from common.declare import *\n"
        'pipeline = Pipeline("p", bronze=[Topic("t")], silver=[Silver("s", reads="bronze.t",\n'
        '    value=Json("a struct<b: int>, t timestamp"), columns={"b": "a.b", "t": "t"}, key=["b"],\n'
        '    event_time="t", watermark="1 day")])\n'
    )
    path = tmp_path / "pipeline.py"
    path.write_text(text.replace(was, becomes))
    plain = CliRunner().invoke(cli, ["check", "-p", str(path)])
    assert plain.exit_code == 2
    assert part in plain.stdout
    assert plain.stdout.startswith("1 problem in ")
    machine = CliRunner().invoke(cli, ["check", str(path), "--json"])
    assert machine.exit_code == 2
    document = json.loads(machine.stdout)
    assert document["ok"] is False
    assert [problem["message"].endswith(part) for problem in document["problems"]] == [True]
    assert all(problem["source"].startswith(f"{path}:") for problem in document["problems"])


_MANY = """
from medallion import *

pipeline = Pipeline(
    "shop",
    bronze=[Topic("orders", startng_offsets="latest"), Topic("clicks", max_offsets_per_trigger=0)],
    silver=[
        Silver("orders", reads="bronze.ordrs", value=Json("id string, amount decimal(39,2), at timestamp"),
            columns={"order_id": "id", "amount": "amont", "at": "at"}, key=["order_id"], event_time="at",
            watermark="1 dya",
            rules=[Rule("positive", "amount > 0", on_fail="explode"), Rule("known", "custmer is not null")]),
        Silver("clicks", reads="bronze.clicks", value=Json("id string, at timestamp", max_depth=0),
            columns={"id": "id", "at": "at"}, key=["idd"], event_time="at", wattermark="1 day"),
    ],
    gold=[
        Aggregate("sums", reads="silver.order", by=["order_id"], measures={"n": "count(*)"}, mode="now"),
        Aggregate("tops", reads="silver.orders", by=["order_i"], measures={"n": "coumt(*)"}),
        Upsert("latest", reads="silver.orders", key="order_id", newest_by=["att"]),
        Join("j", reads="silver.orders", joins="silver.click", on={"id": "order_id"},
            columns={"a": "amount"}, mode="stream"),
    ],
    quality=[Quality("gold.top", [Expect("expect_nothing", {})])],
)
"""

_EACH_OF_MANY = (
    "'startng_offsets' is not a field of Topic; did you mean 'starting_offsets'?",
    "max_offsets_per_trigger is 0;",
    "on_fail: expected 'warn'",
    "watermark: '1 dya' is no interval",
    "reads 'bronze.ordrs'",
    "'decimal(39,2)' has 39 digits",
    "the value has no 'amont'; did you mean 'amount'?",
    "silver.orders has no 'custmer'",
    "max_depth is 0;",
    "needs watermark, such as",
    "'wattermark' is not a field of Silver",
    "key 'idd' is no column of silver.clicks",
    "mode: expected '",
    "reads 'silver.order', which the pipeline does not declare",
    "key: must be a list",
    "newest_by 'att' is no column",
    'within bounds mode="stream"',
    "joins 'silver.click', which the pipeline does not declare",
    "'expect_nothing' is no expectation",
    "by|silver.orders has no 'order_i'",
    "calls coumt(), which Spark does not have",
    "'gold.top' is not declared; did you mean 'gold.tops'?",
)


def test_mistakes_of_declarations_tables_and_columns_are_told_all_at_once(tmp_path: Path) -> None:
    """Each planted one, and none that only follows from another."""
    file = tmp_path / "shop.py"
    file.write_text(_MANY)
    found = [str(each) for each in draft_problems(load_draft(file), load_settings(overrides=[]))]
    for planted in _EACH_OF_MANY:
        (_,) = [each for each in found if planted.rpartition("|")[2] in each]
    assert len(found) == len(_EACH_OF_MANY)
    assert all(each.startswith(f"{file}:") for each in found)
    assert not [each for each in found if FAULTY in each]


def test_all_mistakes_are_told_by_the_commands_that_run_a_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(_MANY)
    with pytest.raises(PipelineError) as caught:
        run.checked(context(file))
    assert len(caught.value.problems) == len(_EACH_OF_MANY)
    with pytest.raises(PipelineError):
        load_pipeline(file)


@pytest.mark.parametrize(
    ("planted", "told_of"),
    [
        ("silver=", "'sliver' is not a field of Pipeline"),
        ('reads="bronze.t"', "needs reads"),
        ('value=Json("a int, t timestamp")', "needs value"),
        ('columns={"a": "a", "t": "t"}', "needs columns"),
        ('key=["a"]', "needs key"),
        ('event_time="t"', "needs event_time"),
        ('by=["a"]', "needs by"),
        ('Topic("t")', "bronze: "),
    ],
)
def test_what_follows_from_a_wrong_declaration_is_not_told(
    planted: str, told_of: str, tmp_path: Path
) -> None:
    """One mistake is one problem, whatever depends on the wrong value."""
    text = (
        "from medallion import *\n"
        'pipeline = Pipeline("p", bronze=[Topic("t")], silver=[Silver("s", reads="bronze.t",\n'
        '    value=Json("a int, t timestamp"), columns={"a": "a", "t": "t"}, key=["a"],\n'
        '    event_time="t", watermark="1 day", rules=[Rule("r", "a > 1")])],\n'
        '    gold=[Aggregate("g", reads="silver.s", by=["a"], measures={"n": "count(*)"}),\n'
        '        Upsert("u", reads="silver.s", key=["a"], newest_by=["t"])],\n'
        '    quality=[Quality("gold.g", [])])\n'
    )
    wrong = {"silver=": "sliver=", 'Topic("t")': "5"}.get(planted)
    file = tmp_path / "p.py"
    part = re.escape(planted) + ("" if wrong else r",\s*")
    file.write_text(re.sub(part, wrong or "", text, count=1))
    (problem,) = draft_problems(load_draft(file), load_settings(overrides=[]))
    assert told_of in problem.message


def test_checking_loads_no_spark_no_kafka_and_no_pandas() -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from orchestration.access.declaration.load_file import load_pipeline\n"
        "from orchestration.author.check.pipeline import check; import orchestration.cli.author.check\n"
        f"assert not check(load_pipeline(Path({str(EXAMPLE)!r})))\n"
        "print([name for name in ('pyspark', 'confluent_kafka', 'pandas', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_framed_avro_needs_a_registry_in_the_settings() -> None:
    schema = (
        '{"type":"record","name":"R","fields":[{"name":"id","type":"string"},{"name":"at","type":"long"}]}'
    )
    columns = {"quake_id": "id", "event_at": "timestamp_millis(at)"}
    framed = pipeline(silver(value=Avro(schema, framing="registry"), columns=columns, rules=[]))
    (problem,) = setting_problems(framed, load_settings(overrides=[]))
    assert "needs the setting silver.schema_registry" in problem.message
    assert setting_problems(framed, load_settings(overrides=["silver.schema_registry=schemas"])) == ()


def test_protobuf_is_checked_by_its_descriptors(tmp_path: Path) -> None:
    (tmp_path / "refund.desc").write_bytes(descriptors(REFUND))
    file = str(tmp_path / "refund.desc")
    columns = {"quake_id": "order_id", "event_at": "refunded_at"}
    value = Protobuf(file, "shop.Refund", framing="registry")
    framed = pipeline(silver(value=value, columns=columns, rules=[], unknown_fields="rescue"))
    assert told(framed) == []
    (problem,) = setting_problems(framed, load_settings(overrides=[]))
    assert problem.message.endswith("a registry's address, or a folder of <id>.desc")
    assert told(pipeline(silver(value=value, columns=columns | {"x": "order_idd"}, rules=[]))) == [
        "silver.quakes, column 'x': the value has no 'order_idd'; did you mean 'order_id'?"
    ]
    (fault,) = told(pipeline(silver(value=Protobuf(file, "Refund"), columns=columns, rules=[])))
    assert "has no message 'Refund'; did you mean 'shop.Refund'?" in fault
    with pytest.raises(PipelineError, match="makes columns of names, and Protobuf sends numbers"):
        silver(value=value, columns=columns, unknown_fields="evolve")
    with pytest.raises(PipelineError, match="is for strict Json and Debezium values only"):
        silver(value=value, columns=columns, each="lines")


def test_the_columns_of_avro_are_known() -> None:
    schema = '{"type":"record","name":"R","fields":[{"name":"id","type":"string"}]}'
    wrong = silver(value=Avro(schema), columns={"quake_id": "idd"}, rules=[])
    assert "silver.quakes, column 'quake_id': the value has no 'idd'; did you mean 'id'?" in told(
        pipeline(wrong)
    )


@pytest.mark.parametrize(
    ("where", "fault"),
    [
        ("id = 'a' and properties.mag > 1 and _kafka.topic = 't'", None),
        ("exists(_kafka.headers, h -> h.key = 'type' and cast(h.value as string) = 'dns')", None),
        ("", "the SQL is empty; write a SQL expression"),
        ("idd = 'a'", "the value has no 'idd'; did you mean 'id'?"),
        ("magnitude > 1", "'magnitude' is another column of this table; a column sees only the value"),
        ("id = ", "the SQL "),
        ("id", "is a string, not a boolean; write a condition such as type = 'dns'"),
        ("rand() < 0.5", "calls rand(), whose value differs each time"),
        ("max(id) = 'a'", "max() is an aggregate"),
        ("cast(id as int) = 1", "write try_cast(… as int)"),
        ("_kafka.fault is null", "'_kafka' has no field 'fault'"),
        ("window(_kafka.timestamp, '1 hour').start is not null", "compare the time itself"),
        ("nosuch(id)", "calls nosuch(), which Spark does not have"),
    ],
)
def test_the_condition_where_is_checked(where: str, fault: str | None) -> None:
    found = told(pipeline(silver(where=where)))
    assert len(found) == (fault is not None), found
    assert all(text.startswith("silver.quakes, where: ") and (fault or "") in text for text in found), found


def test_a_condition_that_no_tombstone_meets_is_refused_where_tombstones_are_kept() -> None:
    kept: dict[str, Any] = {
        "columns": {
            "quake_id": "coalesce(id, cast(_kafka.key as string))",
            "event_at": "_kafka.timestamp",
            "n": "_kafka.offset",
        },
        "key": ["quake_id", "n"],
        "tombstones": "keep",
    }
    (fault,) = told(pipeline(silver(where="id like 'a%'", **kept)))
    assert fault.endswith("decide by the record: (id like 'a%') or _kafka.value is null")
    assert told(pipeline(silver(where="(id like 'a%') or _kafka.value is null", **kept))) == []


@pytest.mark.parametrize("place", ["column", "rule"])
def test_a_window_with_a_slide_is_refused_in_silver(place: str) -> None:
    sliding = "window(_kafka.timestamp, '1 hour', '5 minutes')"
    of_rule = silver(rules=[Rule("x", f"{sliding}.start is not null")])
    (fault,) = told(with_column(sliding) if place == "column" else pipeline(of_rule))
    text = "a window with a slide gives several rows for one; leave the slide out"
    assert fault == f"silver.quakes, {place} 'x': {text}"
