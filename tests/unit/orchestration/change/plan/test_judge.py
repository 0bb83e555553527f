"""The judgement of each kind of difference, without tables: what the next start does about it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.config.settings import Settings
from common.declare import FileSink, Json, KafkaSink, Publish, Reading, Rule, Stateful, Topic
from common.delta.table import shape_difference
from gold.table.declaration_marks import meaning
from orchestration.access.declaration.last_declaration import FILE, described, recorded, remember
from orchestration.change.plan.change import EFFECTS, Change, QueryPlan
from orchestration.change.plan.judge import column_changes, differences, shape_of, without_types
from orchestration.change.plan.plan import with_replaced_sources
from orchestration.run.start_checks import judge_declaration
from tests.support.documents import chapters
from tests.support.oracles.numbered_rows import Numbered, NumberedOrders
from tests.support.oracles.plan_shop import BASE, COLUMNS, GOLD, PUBLISH, noted_negative, orders

ROOT = Path(__file__).parents[5]
TOPIC = Topic("orders")
GONE = ("country", "amount", "kind", "at", "sent")
"""The fields of the orders' value besides the id."""
NESTED = (
    "id string, lines array<struct<sku: string, n: {}, price: struct<net: {}, tax: double>>>, at timestamp{}"
)
SENT = Publish("orders", "gold.latest", to=FileSink("export/a", format="csv"))


def told(before: Any, now: Any) -> list[tuple[str, str, str, str]]:
    """Name, both texts and reason of each difference between two declarations."""
    found = differences(now, described(before, Settings()), described(now, Settings()))
    return [(each.name, each.old, each.new, each.why) for each in found]


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (
            Topic("orders", topics=["orders_new"]),
            (
                "topic orders is read no more: rows that came from there stay, and no others come. "
                "topic orders_new is read from the first record"
            ),
        ),
        (Topic("orders", topics=["orders", "a", "b"]), "topics a, b are read from the first record"),
        (
            Topic("orders", assign={"a.b": [0, 1]}),
            (
                "topic orders is read no more: rows that came from there stay, and no others come. "
                "topic a.b is read from the first record"
            ),
        ),
        (Topic("orders", pattern="orders-.*"), "topics that match no more are read no more, and their rows"),
    ],
)
def test_what_is_read_no_more_is_said(now: Topic, reason: str) -> None:
    ((_, _, _, why),) = told(TOPIC, now)
    assert why.startswith(reason)


@pytest.mark.parametrize(
    ("to", "name", "texts", "why"),
    [
        (
            FileSink("export/b", format="csv"),
            "to.path",
            ("export/a", "export/b"),
            "files of the former folder stay",
        ),
        (FileSink("export/a", format="csv", header=False), "to.header", ("", "False"), "what was sent stays"),
        (
            KafkaSink("out"),
            "to",
            ("FileSink(path=export/a, format=csv)", "KafkaSink(topic=out)"),
            "what was sent stays where it is; only what the table gets from now on goes there",
        ),
    ],
)
def test_what_stays_behind_is_said_of_a_sink(to: Any, name: str, texts: tuple[str, str], why: str) -> None:
    ((found, old, new, said),) = told(SENT, replace(SENT, to=to))
    assert (found, (old, new)) == (name, texts)
    assert said.startswith(why)


def test_of_a_long_schema_only_the_fields_that_differ_are_shown() -> None:
    before = orders(value=Json(NESTED.format("int", "double", "")))
    now = orders(value=Json(NESTED.format("bigint", "decimal(9,2)", ", note string"), required=["id"]))
    assert [each[:3] for each in told(before, now)] == [
        ("value.schema.lines.n", "int", "bigint"),
        ("value.schema.lines.price.net", "double", "decimal(9,2)"),
        ("value.schema.note", "", "string"),
        ("value.required", "", "[id]"),
    ]


def test_every_difference_says_what_it_does() -> None:
    """No difference is told by its effect alone."""
    changed = [
        (TOPIC, replace(TOPIC, kafka={"ssl.key.password": "x"}, max_offsets_per_trigger=9, keep="90 days")),
        (orders(), orders(rules=[], key=["id", "country"], where="amount > 1", trigger="1 minute")),
        (SENT, replace(SENT, where="amount > 1", columns=["id"], deletes=True)),
        (GOLD["noted"], replace(GOLD["noted"], write=noted_negative)),
    ]
    assert all(why for before, now in changed for *_, why in told(before, now))


def effects(before: Any, now: Any, refused: tuple[str, ...] = ()) -> dict[str, str]:
    """The effect of each difference between two declarations."""
    settings = Settings()
    found = differences(now, described(before, settings), described(now, settings), refused=refused)
    return {each.name: each.effect for each in found}


CHANGES = {row.place: row for row in chapters.rows(ROOT / "tests" / "spec" / "plan" / "changes.md")}
BEFORE = {one.table: one for one in (TOPIC, *BASE.silver, *BASE.gold, PUBLISH)}


@pytest.mark.parametrize("place", CHANGES)
def test_each_difference_of_the_chapter_is_named_with_its_effect(place: str) -> None:
    """That a start does so: tests/pipeline/change/test_plan.py. ``WRITE_CHAPTERS=1`` writes the names."""
    row = CHANGES[place]
    now = row.value(1)
    before = BEFORE.get(now.table)
    found = {} if before is None else effects(before, now, refused_marks(before, now))
    said = "<br>".join(f"{name}: {effect}" for name, effect in found.items()) or "none"
    if "WRITE_CHAPTERS" in os.environ:
        row.write({3: said})
        return
    assert said == row.cells[3]
    assert not isinstance(now, Topic) or {*found.values()} <= {row.cells[2]}


def refused_marks(before: Any, now: Any) -> tuple[str, ...]:
    """What a start of gold compares, and finds different."""
    if before not in BASE.gold:
        return ()
    had, has = dict(meaning(before)), dict(meaning(now))
    return tuple(sorted(name for name in {*had, *has} if had.get(name) != has.get(name)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"columns": {n: c for n, c in COLUMNS.items() if n != "country"}}, {"columns.country": "rebuild"}),
        (
            {"columns": {n: c for n, c in COLUMNS.items() if n != "country"} | {"land": "country"}},
            {"columns.country": "rebuild", "columns.land": "new column"},
        ),
        ({"columns": COLUMNS | {"amount": "cast(amount as string)"}}, {"columns.amount": "not compared"}),
        ({"columns": COLUMNS | {"kind": "kind"}}, {"columns.kind": "new column"}),
        ({"value": Json("id string")}, {f"value.schema.{n}": "not compared" for n in GONE}),
        (
            {"columns": {"id": "id"}, "unknown_fields": "evolve"},
            {f"columns.{n}": "next start" for n in COLUMNS if n != "id"} | {"unknown_fields": "not compared"},
        ),
        ({"rules": []}, {"rule amount_positive": "next start"}),
    ],
)
def test_without_types_the_names_of_columns_decide(changes: dict[str, Any], expected: dict[str, str]) -> None:
    before, now, settings = orders(), orders(**changes), Settings()
    found = differences(now, described(before, settings), described(now, settings))
    assert {each.name: each.effect for each in without_types(now, found)} == expected


def test_both_texts_of_a_rule_are_shown() -> None:
    before, now = orders(), orders(rules=[Rule("amount_positive", "amount  >=\n 0", on_fail="drop")])
    found = differences(now, described(before, Settings()), described(now, Settings()))
    assert [(each.old, each.new) for each in found] == [("amount > 0 -> quarantine", "amount >= 0 -> drop")]


@pytest.mark.parametrize("name", sorted(set(GOLD) - {"noted", "joined"}))
def test_gold_is_judged_by_the_marks_that_a_start_compares(name: str) -> None:
    gold = GOLD[name]
    now = replace(gold, reads="silver.exact")
    last = {"declared": dict(meaning(gold))}
    assert judge_declaration(gold, last, meaning(gold)) is None
    assert judge_declaration(now, None, meaning(now)) is None
    assert judge_declaration(now, last, meaning(now), [gold.table]) is None
    problem = judge_declaration(now, last, meaning(now))
    assert problem is not None
    assert problem.place == f"gold.{name}, reads"
    assert effects(gold, now, ("reads",)) == {"reads": "rebuild"}


def test_a_function_is_compared_by_its_source() -> None:
    assert effects(GOLD["noted"], replace(GOLD["noted"], write=noted_negative)) == {"write": "next start"}
    before, now = (
        Stateful("numbered", "silver.orders", key=["id"], processor=one, output="id string, n int")
        for one in (Numbered, NumberedOrders)
    )
    found = differences(now, described(before, Settings()), described(now, Settings()))
    assert [(each.name, each.effect) for each in found] == [("processor", "next start")]
    assert "A rebuild runs all rows" in found[0].why


@pytest.mark.parametrize(
    ("want", "effect"),
    [
        ({"id": "string", "n": "int", "more": "int"}, "new column"),
        ({"id": "string"}, "rebuild"),
        ({"id": "string", "n": "bigint"}, "rebuild"),
        ({"id": "string", "m": "int"}, "rebuild"),
    ],
)
def test_columns_of_silver(want: dict[str, str], effect: str) -> None:
    found = column_changes(orders(), "silver.orders", shape_difference({"id": "string", "n": "int"}, want))
    assert {each.effect for each in found} == {effect}


def test_columns_of_gold_change_by_a_rebuild() -> None:
    gold, have = GOLD["counts"], {"country": "string", "n": "bigint"}
    for want in (have | {"most": "int"}, {"country": "string", "most": "int"}, have | {"n": "int"}):
        found = column_changes(gold, gold.table, shape_of(gold, gold.table, have, want))
        assert {each.effect for each in found} == {"rebuild"}


def test_a_query_that_reads_a_table_whose_columns_are_replaced_cannot_go_on() -> None:
    """A publication, and gold that reads gold; a rebuild of silver fills its gold tables again by itself."""
    numbers = replace(GOLD["counts"], name="numbers", reads="gold.latest", mode="recompute")
    queries = (orders(), GOLD["latest"], numbers, PUBLISH, replace(PUBLISH, name="more", reads="gold.latest"))
    gone, added = Change("column a", "int", "", "rebuild"), Change("column b", "", "int", "rebuild")

    def effects_of(*changes: Change) -> dict[str, str]:
        plans = [
            QueryPlan(one.table, changes if one.table in {"silver.orders", "gold.latest"} else ())
            for one in queries
        ]
        return {one.query: one.effect for one in with_replaced_sources(plans, queries)}

    unchanged = {"gold.numbers": "unchanged", "publish.sent": "unchanged", "publish.more": "unchanged"}
    assert effects_of(added) == {"silver.orders": "rebuild", "gold.latest": "rebuild"} | unchanged
    assert effects_of(gone) == {
        "silver.orders": "rebuild",
        "gold.latest": "rebuild",
        "gold.numbers": "rebuild",
        "publish.sent": "refused",
        "publish.more": "refused",
    }


def test_a_history_that_keeps_earlier_rows_gets_columns_and_loses_none() -> None:
    gold, have = replace(GOLD["states"], reading=Reading(starting_version=1)), {"id": "string", "n": "int"}
    more = shape_of(gold, gold.table, have, have | {"m": "int"})
    assert [each.effect for each in column_changes(gold, gold.table, more)] == ["rebuild"]
    other = shape_of(gold, gold.table, have, {"id": "string", "m": "int"})
    assert {each.effect for each in column_changes(gold, gold.table, other)} == {"refused"}


def test_the_order_of_columns_is_no_difference() -> None:
    assert not shape_difference({"a": "int", "b": "int"}, {"b": "int", "a": "int"})


def test_the_effect_of_a_query_is_that_of_its_greatest_change() -> None:
    changes = tuple(Change("x", "", "", effect) for effect in EFFECTS)
    assert QueryPlan("gold.x").effect == "unchanged"
    assert QueryPlan("gold.x", changes).effect == "refused"
    assert QueryPlan("gold.x", changes[:3]).effect == "not declared"


def test_a_declaration_is_kept_without_what_may_be_secret(tmp_path: Any) -> None:
    topic = replace(TOPIC, kafka={"sasl.jaas.config": "user secret-password"})
    settings = Settings()
    assert recorded(str(tmp_path)) is None
    remember(str(tmp_path), topic, settings)
    assert "secret-password" not in (tmp_path / FILE).read_text()
    assert recorded(str(tmp_path)) == described(topic, settings)
    written = (tmp_path / FILE).stat().st_mtime_ns
    remember(str(tmp_path), topic, settings)
    assert (tmp_path / FILE).stat().st_mtime_ns == written
    (tmp_path / FILE).write_bytes(b"{")
    assert recorded(str(tmp_path)) is None


def test_every_kind_of_declaration_has_a_text() -> None:
    for declared in (TOPIC, orders(), *GOLD.values(), PUBLISH, Publish("x", "gold.y", PUBLISH.to)):
        assert described(declared, Settings()) == described(declared, Settings())
        assert all("0x" not in text for text in described(declared, Settings()).attributes.values())
