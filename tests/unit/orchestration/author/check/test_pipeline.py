"""A pipeline is judged whole and without Spark: every mistake has its place and the right word beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
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
    DeltaTable,
    Json,
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
    unchecked,
)
from orchestration.author.check.settings import doubtful_settings, setting_problems
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


def test_the_example_has_no_problem() -> None:
    assert check(load_pipeline(EXAMPLE)) == ()


def test_a_function_that_something_of_the_users_may_add_is_taken() -> None:
    """A Spark extension, or a function that registers it; a slip of the pen is told all the same."""
    added = with_column("st_buffer(id) || uper(id)")
    (slip,) = check(added, load_settings(overrides=["spark.conf.spark.sql.extensions=a.Sedona"]))
    assert "did you mean 'upper'?" in slip.message
    hooked = silver(columns=lambda frame: frame, rules=[Rule("r", "my_udf(anything) > 1")])
    assert told(pipeline(hooked)) == []


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


def test_a_table_is_declared_once_but_a_topic_may_be_read_twice() -> None:
    twice = Pipeline("p", bronze=[Topic("a"), Topic("b", topics=["a"]), Topic("a", topics=["c"])])
    (problem,) = check(twice)
    assert problem.place == "bronze.a"
    assert problem.message.startswith("is declared twice, first at ")


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


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("htp://registry", "did you mean 'http://registry'?"),
        ("{}/gone", "there is no such folder"),
        ("https://registry", None),
        ("{}", None),
    ],
)
def test_a_place_where_no_schemas_can_be_is_doubtful(tmp_path: Path, place: str, text: str | None) -> None:
    given = load_settings(overrides=[f"silver.schema_registry={place.format(tmp_path)}"])
    found = doubtful_settings(pipeline(silver()), given)
    assert [one.place for one in found if text and text in one.message] == ["settings"] * len(found)
    assert bool(found) == (text is not None)


def test_a_scheme_whose_file_system_is_set_is_taken() -> None:
    """As on a cluster whose vendor has one for ``s3://``."""
    stored = replace(pipeline(silver()), bronze=[DeltaTable("quakes", "s3://b/x")])
    given = ["spark.conf.spark.hadoop.fs.s3.impl=com.vendor.FileSystem"]
    found = [doubtful_settings(stored, load_settings(overrides=each)) for each in ([], given)]
    assert [len(each) for each in found] == [1, 0]


def test_a_location_as_spark_prints_it_is_a_path() -> None:
    assert DeltaTable("orders", "file:/lake/orders").folder == "/lake/orders"
    assert DeltaTable("orders", "s3a://lake/orders").folder == "s3a://lake/orders"
