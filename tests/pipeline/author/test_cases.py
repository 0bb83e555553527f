"""A pipeline's own tests: the examples' cases pass, and a case that is wrong says by row and column why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.declare import Pipeline
from common.errors import PipelineError, UsageError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.cases import pytest_plugin
from orchestration.author.cases.fates import fates
from orchestration.author.cases.output import failure_text
from orchestration.author.cases.read.case import Record
from orchestration.author.cases.read.load import find_files, load_files
from orchestration.author.cases.record import write_case
from orchestration.author.cases.session import CaseSession
from orchestration.author.cases.suite import load_suite
from tests.conftest import make_settings
from tests.support.avro import encode, framed, record

EXAMPLES = Path(__file__).parents[3] / "examples"

PIPELINE = """
from medallion import Aggregate, Csv, Files, Json, Lookup, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("moves", pattern="moves_.*"),
            Files("prices", path="prices", format="csv", header=True)],
    silver=[
        Silver("orders", reads="bronze.orders", value=Json("id string, amount decimal(10,2), at timestamp"),
               columns={"id": "id", "amount": "amount", "at": "at",
                        "type": "cast(get(_kafka.headers, 0).value as string)"},
               key=["id"], event_time="at", watermark="1 day",
               lookups=[Lookup("known", "gold.sums", {"id": "id"})],
               rules=[Rule("positive", "amount > 0"), Rule("known", "known.total is not null")]),
        Silver("moves", reads="bronze.moves", value=Json("id string, at timestamp"),
               columns={"id": "id", "at": "at", "topic": "_kafka.topic"},
               key=["id"], event_time="at", watermark="1 day"),
        Silver("prices", reads="bronze.prices", value=Csv("id string, price bigint, at string"),
               columns={"id": "id", "price": "price",
                      "at": "to_utc_timestamp(try_to_timestamp(at, 'd/M/yyyy H:mm[:ss]'), 'Europe/Berlin')"},
               key=["id"], event_time="at", watermark="1 day"),
    ],
    gold=[Aggregate("sums", reads="silver.orders", by=["id"], measures={"total": "sum(amount)"})],
)
"""

CASES = """
shared:
- &known |
  id | total double
  a  | 1
  b  | 1
cases:
- name: passes
  topic: orders
  messages:
  - value: {id: a, amount: 5, at: "2026-03-01T12:00:00Z"}
    headers: {type: paid}
    partition: 3
    offset: 7
    timestamp: 2026-03-01T12:00:01Z
  - cut
  - {id: a, amount: 6, at: "2026-03-01T12:00:00Z"}
  - {id: c, amount: -1, at: "2026-03-01T12:00:00Z"}
  lookups: {known: *known}
  expect:
    bronze.orders: |
      partition | offset
      3         | 7
      0         | 0
      0         | 1
    silver.orders: |
      id | amount | type | _kafka_partition | _kafka_offset | _kafka_timestamp
      a  | 5      | paid | 3                | 7             | 2026-03-01T12:00:01Z
    silver.orders__quarantine: |
      offset | reasons         | value
      1      | positive, known | *
    silver.orders__late: none
    gold.sums: |
      id | total
      a  | 5.00
- name: differs
  topic: orders
  messages:
  - {id: a, amount: 5, at: "2026-03-01T12:00:00Z"}
  - {id: b, amount: 7, at: "2026-03-01T12:00:00Z"}
  lookups: {known: *known}
  expect:
    silver.orders: |
      id | amount
      a  | 5.01
      b  | 7
      z  | 9
    gold.sums: |
      id | total
      a  | 5
- name: lacks its lookup
  topic: orders
  messages: []
  expect: {silver.orders: none}
- name: reads a topic of a pattern
  messages:
  - {topic: moves_eu, value: {id: m, at: "2026-03-01T12:00:00Z"}}
  expect:
    silver.moves: |
      id | topic
      m  | moves_eu
- name: reads a line of a file by the names in its header
  topic: bronze.prices
  messages:
  - {value: "5,29/2/2016 01:16,a", headers: {header: "price,at,id"}}
  - {value: "b,6,30/10/2016 2:30:05", headers: {header: "id,price,at"}}
  - {value: "c,7,27/3/2016 02:30", headers: {header: "id,price,at"}}
  expect:
    silver.prices: |
      id | price | at
      a  | 5     | 2016-02-29T00:16:00Z
      b  | 6     | 2016-10-30T00:30:05Z
      c  | 7     | 2016-03-27T01:30:00Z
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("shop") / "shop.py"
    file.write_text(PIPELINE)
    file.with_name("shop.cases.yaml").write_text(CASES)
    return file


def test_a_case_passes_or_says_by_row_and_column_what_differs(case_session: CaseSession, shop: Path) -> None:
    """Cases run at the same time, each on its own tables; nothing of them stays on the disk."""
    settings = make_settings(shop.parent, "none:1", f"pipeline={shop}")
    suite = load_suite([], settings)
    assert suite.problems == ()
    outcomes = case_session.run([(case, pipeline, settings) for case, pipeline in suite.cases])
    passed, differs, lacks, pattern, of_file = map(failure_text, outcomes)
    assert outcomes[0].has_passed, passed
    assert outcomes[3].has_passed, pattern
    assert outcomes[4].has_passed, of_file
    file = shop.with_name("shop.cases.yaml")
    assert differs.splitlines()[1:] == [
        f"{file}:44  silver.orders: 1 row differs, 1 row is missing, 1 row is as expected",
        "    id   amount",
        "  ~ a    5.01 -> 5.00",
        "  - z    9",
        f"{file}:49  gold.sums: 1 row is not expected, 1 row is as expected",
        "    id   total",
        "  + b    7.00",
    ]
    assert "give its rows below 'lookups: known:'" in lacks
    assert list(case_session.folder.iterdir()) == []
    assert not (shop.parent / "data").exists()


TYPED = """
from medallion import Columns, DeltaTable, Pipeline, Silver

pipeline = Pipeline(
    name="shop",
    bronze=[DeltaTable("history", path="lake/orders")],
    silver=[Silver("orders", reads="bronze.history", value=Columns("id bigint, at timestamp"),
                   columns=["id", "at"], key=["id"], event_time="at", watermark="1 day")],
)
"""

TYPED_CASES = """
cases:
- name: a row of a Delta table
  messages:
  - {id: 7, at: "2026-03-01T12:00:00Z"}
  - {id: x, at: "2026-03-01T12:00:00Z"}
  expect:
    silver.orders: |
      id | _kafka_topic
      7  | delta:history
    silver.orders__quarantine: |
      reasons    | field
      wrong_type | id
"""


def test_typed_columns_are_given_as_json(case_session: CaseSession, tmp_path: Path) -> None:
    """Their types are declared; without them the cases are refused, with what to write."""
    file = tmp_path / "shop.py"
    file.write_text(TYPED)
    file.with_name("shop.cases.yaml").write_text(TYPED_CASES)
    settings = make_settings(tmp_path, "none:1", f"pipeline={file}")
    suite = load_suite([], settings)
    outcomes = case_session.run([(case, pipeline, settings) for case, pipeline in suite.cases])
    assert [failure_text(one) for one in outcomes if not one.has_passed] == []
    file.write_text(TYPED.replace('"id bigint, at timestamp"', ""))
    with pytest.raises(PipelineError, match="name the columns, such as value=Columns"):
        load_suite([], settings)


AT = {"type": "long", "logicalType": "timestamp-micros"}
AVRO_ORDERS = """
from medallion import *
pipeline = Pipeline("shop", bronze=[Topic("orders")], silver=[
    Silver("orders", reads="bronze.orders", value=Avro("order.avsc", framing="registry"),
           columns=["id", "amount", "at"], key=["id"], event_time="at", watermark="1 day")])
"""


def test_records_that_no_table_has_read_are_judged(case_session: CaseSession, shop: Path) -> None:
    """What ``medallion topic tail --judged`` says of each: its row, reasons against it, or a duplicate."""
    settings = make_settings(shop.parent, "none:1", f"pipeline={shop}")
    moved = b'{"id": "m", "at": "2026-03-01T12:00:00Z"}'
    values = [moved, b"{", None, moved]
    records = [
        Record(value, topic="moves_eu", partition=1, offset=70 + at) for at, value in enumerate(values)
    ]
    told = fates(case_session, load_pipeline(shop), settings, records)
    found = [told["moves_eu", 1, 70 + at][0] for at in range(len(values))]
    assert [one["verdict"] for one in found] == [
        "accepted",
        "quarantined",
        "tombstone",
        "duplicate of another record here",
    ]
    assert found[0]["row"]["topic"] == "moves_eu"
    assert found[1]["reasons"] == ["malformed_json"]
    with pytest.raises(UsageError, match="no silver table reads topic paid"):
        fates(case_session, load_pipeline(shop), settings, [Record(b"", topic="paid", offset=0)])


def test_avro_records_are_judged_by_the_schemas_that_wrote_them(
    case_session: CaseSession, tmp_path: Path
) -> None:
    """Of a topic whose producers use a registry: the row, an id that is not known, and bytes without one."""
    (tmp_path / "registry").mkdir()
    writer = record(id="string", amount="int", at=AT)
    (tmp_path / "registry" / "7.avsc").write_text(json.dumps(writer))
    (tmp_path / "order.avsc").write_text(json.dumps(record(id="string", amount="long", at=AT)))
    file = tmp_path / "orders.py"
    file.write_text(AVRO_ORDERS)
    settings = make_settings(
        tmp_path, "none:1", f"pipeline={file}", f"silver.schema_registry={tmp_path / 'registry'}"
    )
    datum = encode(writer, {"id": "a", "amount": 5, "at": 1_772_366_400_000_000})
    values = [framed(7, datum), framed(8, datum), b"\1plain"]
    records = [Record(value, topic="orders", offset=at) for at, value in enumerate(values)]
    told = fates(case_session, load_pipeline(file), settings, records)
    found = [told["orders", 0, at][0] for at in range(len(values))]
    assert found[0]["verdict"] == "accepted"
    assert (found[0]["row"]["id"], found[0]["row"]["amount"]) == ("a", 5)
    assert [one.get("reasons") for one in found[1:]] == [["unknown_schema_id"], ["unknown_framing"]]


@pytest.mark.long
@pytest.mark.parametrize(
    "example",
    ["orders_cdc", "earthquakes", "templates/events", "templates/changes", "templates/files"],
)
def test_the_cases_of_the_examples_pass(case_session: CaseSession, example: str, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "none:1", f"pipeline={EXAMPLES / example / 'pipeline.py'}")
    suite = load_suite([], settings)
    assert suite.problems == ()
    assert len(suite.cases) >= 2
    outcomes = case_session.run([(case, pipeline, settings) for case, pipeline in suite.cases])
    assert [failure_text(one) for one in outcomes if not one.has_passed] == []


@pytest.mark.long
def test_a_recorded_case_passes(case_session: CaseSession, shop: Path, tmp_path: Path) -> None:
    """What it expects is what the run found; texts, bytes and headers are those of the records."""
    copy = Path(shutil.copy(shop, tmp_path / "shop.py"))
    settings = make_settings(tmp_path, "none:1", f"pipeline={copy}")
    (case,) = load_files(find_files(shop)).cases[3:4]
    pipeline = load_pipeline(copy)
    moves = [replace(record, offset=4) for record in case.records]
    odd = [Record(value=b"\xff'\n", key=b"it's", topic="moves_eu", offset=9)]
    file = tmp_path / "recorded.cases.yaml"
    write_case(case_session, pipeline, settings, "as sent: 'x'", [*moves, *odd], (), file)
    write_case(case_session, pipeline, settings, "a second", moves, (), file)
    suite = load_suite([file], settings)
    assert suite.problems == ()
    assert [one.name for one, _ in suite.cases] == ["as sent: 'x'", "a second"]
    again = list(suite.cases[0][0].records)
    assert [(one.key, one.value, one.offset) for one in again[1:]] == [(b"it's", b"\xff'\n", 9)]
    expected = suite.cases[0][0].expect
    assert expected["silver.moves__quarantine"].rows == (("9", "not_utf8", "null"),)
    outcomes = case_session.run([(one, own, settings) for one, own in suite.cases])
    assert [failure_text(one) for one in outcomes if not one.has_passed] == []


def test_the_fixture_of_the_plugin_runs_a_case(
    case_session: CaseSession, shop: Path, request: pytest.FixtureRequest, medallion_case: Callable[..., None]
) -> None:
    pytest_plugin.use_session(request.config, case_session)
    pipeline: Pipeline = load_pipeline(shop)
    given = {"messages": [{"topic": "moves_x", "value": {"id": "m", "at": "2026-03-01T12:00:00Z"}}]}
    medallion_case(pipeline, **given, expect={"silver.moves": [{"id": "m", "topic": "moves_x"}]})
    with pytest.raises(pytest_plugin.CaseFailure, match=r"- n"):
        medallion_case(shop, **given, expect={"silver.moves": "id\nm\nn"})
