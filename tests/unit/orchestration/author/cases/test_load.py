"""Files of cases: what they may say, and the line of each mistake."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from common.errors import CaseError, UsageError
from common.schema.ddl import Field
from medallion import Message, case
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.cases.compare import compare
from orchestration.author.cases.problems import case_problems
from orchestration.author.cases.read.case import TIMESTAMP, Record
from orchestration.author.cases.read.load import Loaded, find_files, load_files
from orchestration.author.cases.suite import file_problems, load_suite
from tests.conftest import make_settings

PIPELINE = """
from medallion import Aggregate, Json, Lookup, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("returns")],
    silver=[
        Silver("orders", reads="bronze.orders", value=Json("id string, amount double, at timestamp"),
               columns=["id", "amount", "at"] and {"id": "id", "amount": "amount", "at": "at"},
               key=["id"], event_time="at", watermark="1 day",
               lookups=[Lookup("known", "gold.sums", {"id": "id"})],
               rules=[Rule("positive", "amount > 0")]),
    ],
    gold=[Aggregate("sums", reads="silver.orders", by=["id"], measures={"total": "sum(amount)"})],
)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE)
    return file


def load(folder: Path, text: str, name: str = "shop.cases.yaml") -> Loaded:
    file = folder / name
    file.write_text(text)
    return load_files([file])


def records(folder: Path, messages: str, more: str = "") -> list[list[Record]]:
    text = f"cases:\n- name: one\n{more}  messages:\n{messages}\n  expect: {{silver.orders: none}}\n"
    found = load(folder, text)
    assert found.problems == ()
    (made,) = found.cases
    return [list(batch) for batch in made.batches]


def test_a_message_is_a_document_a_text_bytes_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "one.bin").write_bytes(b"\x00\xff")
    (tmp_path / "many.jsonl").write_bytes(b'{"id": 1}\n\n{"id": 2}\n')
    (batch,) = records(
        tmp_path,
        """  - {id: a, amount: 5, at: 2026-03-01, country: no, time: 12:30}
  - '{"id": "a",  "amount": 5.0}'
  - value: {id: b}
    key: k
  - {value: null, key_hex: 00 ff}
  - {value_base64: AP8=}
  - {value_hex: 00ff}
  - {value_file: one.bin}
  - {lines_file: many.jsonl, key: k}""",
    )
    assert [(record.key, record.value) for record in batch] == [
        (None, b'{"id": "a", "amount": 5, "at": "2026-03-01", "country": "no", "time": "12:30"}'),
        (None, b'{"id": "a",  "amount": 5.0}'),
        (b"k", b'{"id": "b"}'),
        (b"\x00\xff", None),
        *[(None, b"\x00\xff")] * 3,
        (b"k", b'{"id": 1}'),
        (b"k", b'{"id": 2}'),
    ]


def test_a_message_has_coordinates_and_headers_and_cuts_part_micro_batches(tmp_path: Path) -> None:
    first, second = records(
        tmp_path,
        """  - {id: a}
  - value: {id: b}
    topic: returns
    partition: 2
    offset: 17
    timestamp: 2026-03-01T12:00:00+01:00
    headers: [{type: update}, {type: null}]
  - cut
  - cut
  - value: {id: c}
    timestamp: 1000""",
        more="  topic: orders\n",
    )
    assert [(one.topic, one.partition, one.offset) for one in first] == [
        ("orders", 0, None),
        ("returns", 2, 17),
    ]
    assert [one.timestamp for one in (*first, *second)] == [
        TIMESTAMP,
        datetime(2026, 3, 1, 11, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    ]
    assert first[1].headers == (("type", b"update"), ("type", None))


def test_values_are_shared_by_anchors(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        """
shared:
- &order {id: a, amount: 5}
cases:
- name: one
  messages:
  - {<<: *order, amount: 6}
  - *order
  expect: {silver.orders: none}
""",
    )
    assert [record.value for record in found.cases[0].records] == [
        b'{"id": "a", "amount": 6}',
        b'{"id": "a", "amount": 5}',
    ]


MISTAKES = {
    "cases: [": (1, "is not valid YAML"),
    "- name: one": (1, "expected 'cases:'"),
    "cases: 5": (1, "expected a list"),
    "cases:\n- name: one\n  message: []\n  expect: {a: none}": (2, "needs 'messages'"),
    "cases:\n- name: one\n  messages: []\n  expekt: {}\n  expect: {a: none}": (4, "did you mean 'expect'?"),
    "cases:\n- name: one\n  name: two": (3, "'name' is given twice"),
    "cases:\n- name: one\n  messages:\n  - {key: a, vlaue: b}\n  expect: {a: none}": (
        4,
        "has 'key' and no value",
    ),
    "cases:\n- name: one\n  messages:\n  - {value: a, kee: b}\n  expect: {a: none}": (
        4,
        "did you mean 'key'?",
    ),
    "cases:\n- name: one\n  messages:\n  - {value_hex: zz}\n  expect: {a: none}": (4, "'zz' is no hex"),
    "cases:\n- name: one\n  messages:\n  - {value_file: gone}\n  expect: {a: none}": (4, "No such file"),
    "cases:\n- name: one\n  messages:\n  - {value: a, offset: -1}\n  expect: {a: none}": (
        4,
        "a number from 0",
    ),
    "cases:\n- name: one\n  messages:\n  - {value: a, timestamp: noon}\n  expect: {a: none}": (
        4,
        "write it like",
    ),
    "cases:\n- name: one\n  messages: []\n  expect: {}": (2, "expects nothing"),
    "cases:\n- name: one\n  messages: []\n  expect:\n    a: |\n      x | y\n      1": (7, "has 1 cells"),
    "pipeline: gone.py\ncases:\n- {name: one, messages: [], expect: {a: none}}": (1, "does not exist"),
    "cases:\n" + "- {name: one, messages: [], expect: {a: none}}\n" * 2: (2, "has the same name"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    line, message = MISTAKES[text]
    problems = load(tmp_path, text).problems
    assert any(message in problem.message for problem in problems), problems
    assert f":{line}" in " ".join(problem.source for problem in problems)


def test_python_declares_cases_by_the_same_parts(tmp_path: Path) -> None:
    text = """
from medallion import Message, case

def paid(amount):
    return case(f"{amount} is paid", messages=[{"id": "a", "amount": amount}, "cut", Message(b"k", None)],
                expect={"gold.sums": [{"id": "a", "total": amount}], "silver.orders__late": "none"})

pipeline = "shop.py"
cases = [paid(5), paid(7.5)]
"""
    found = load(tmp_path, text, "shop.cases.py")
    assert [one.name for one in found.cases] == ["5 is paid", "7.5 is paid"]
    one = found.cases[1]
    assert (one.pipeline, str(one.place).rpartition(":")[2]) == (tmp_path / "shop.py", "5")
    assert [(r.key, r.value) for r in one.records] == [(None, b'{"id": "a", "amount": 7.5}'), (b"k", None)]
    assert one.expect["gold.sums"].rows == (("a", "7.5"),)
    assert one.expect["silver.orders__late"].columns == ()


def test_a_python_file_that_raises_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    (problem,) = load(tmp_path, "one = 1\nother = one / 0\n", "shop.cases.py").problems
    assert problem.message == "raised ZeroDivisionError: division by zero"
    assert problem.source.endswith("shop.cases.py:2")
    (problem,) = load(tmp_path, "one = 1\n", "shop.cases.py").problems
    assert "holds no case" in problem.message


def test_a_case_that_is_wrong_raises_where_it_is_declared() -> None:
    with pytest.raises(
        CaseError, match=r"test_load.py:\d+: case 'x', message 1: needs exactly one of"
    ) as raised:
        case("x", messages=[{"value": 1, "value_hex": "00"}], expect={"silver.orders": "none"})
    assert raised.value.exit_code == 2


def test_a_message_of_python_is_taken_as_it_is() -> None:
    made = case("x", messages=[Message(b"k", b"\xff"), b"raw"], expect={"silver.orders": "none"})
    assert [(record.key, record.value) for record in made.records] == [(b"k", b"\xff"), (None, b"raw")]


def test_an_empty_text_of_python_is_no_null() -> None:
    made = case("x", messages=[], expect={"silver.t": [{"b": ""}, {"b": None}]}).expect["silver.t"]

    def differs(*values: str | None) -> bool:
        return compare("silver.t", made, [Field("b", "string")], [{"b": one} for one in values]) is not None

    assert not differs(None, "")
    assert differs(None, None)
    assert differs("", "")


def test_files_are_found_beside_the_pipeline_and_in_the_folder_cases(shop: Path) -> None:
    folder = shop.parent
    (folder / "cases").mkdir()
    names = ("b.cases.yaml", "a.cases.py", "cases/c.cases.yml", "cases/notes.yaml", "x.yaml")
    for name in names:
        (folder / name).touch()
    assert [str(file.relative_to(folder)) for file in find_files(shop)] == [
        "a.cases.py",
        "b.cases.yaml",
        "cases/c.cases.yml",
    ]


def test_what_does_not_fit_the_pipeline_is_named_with_its_line(shop: Path) -> None:
    text = """cases:
- name: one
  messages:
  - {id: a}
  - {topic: order, value: {id: a}}
  lookups:
    knwon: |
      id
      a
  expect:
    silver.order: none
    silver.orders: |
      id | amont
      a  | 5
    silver.orders__quarantine: |
      offset | reasons
      first  | positive
    silver.orders__late: |
      amount | _watermark
      5.0    | noon
    gold.sums: |
      id | totl
      a  | 5
"""
    made = load(shop.parent, text)
    assert made.problems == ()
    found = case_problems(made.cases, load_pipeline(shop))
    lines = [(int(problem.source.rpartition(":")[2]), problem.message) for problem in found]
    assert sorted(lines) == [
        (4, "needs a topic: the pipeline reads bronze.orders, bronze.returns"),
        (5, "no bronze table reads topic 'order'; did you mean 'orders'?"),
        (8, "no rule looks up 'knwon'; did you mean 'known'?"),
        (11, "the pipeline has no table 'silver.order'; did you mean 'silver.orders'?"),
        (13, "silver.orders has no column 'amont'; did you mean 'amount'?"),
        (17, "column 'offset': 'first' is no bigint"),
        (20, "column '_watermark': 'noon' is no timestamp: write it like 2026-03-01T12:00:00Z"),
        (22, "gold.sums has no column 'totl'; did you mean 'total'?"),
    ]
    of_check = file_problems(shop, load_pipeline(shop))
    assert {problem.place for problem in of_check} == {"cases"}
    assert [(one.source, one.message) for one in of_check] == [
        (one.source, f"{one.place}: {one.message}") for one in found
    ]


def test_cases_of_another_pipeline_beside_it_are_left_out(shop: Path) -> None:
    settings = make_settings(shop.parent, "none:1", f"pipeline={shop}")
    with pytest.raises(UsageError, match="No cases beside"):
        load_suite([], settings)
    (shop.parent / "other.py").write_text(PIPELINE.replace('"shop"', '"other"'))
    one = "cases:\n- {{name: {0}, topic: orders, messages: [{{id: a}}], expect: {{silver.orders: none}}}}\n"
    load(shop.parent, one.format("mine"), "mine.cases.yaml")
    load(shop.parent, "pipeline: other.py\n" + one.format("theirs"), "theirs.cases.yaml")
    suite = load_suite([], settings)
    assert [(made.name, pipeline.name) for made, pipeline in suite.cases] == [("mine", "shop")]
    both = load_suite([shop.parent / "mine.cases.yaml", shop.parent / "theirs.cases.yaml"], settings)
    assert [(made.name, pipeline.name) for made, pipeline in both.cases] == [
        ("mine", "shop"),
        ("theirs", "other"),
    ]
    with pytest.raises(UsageError, match="no such file of cases"):
        load_suite([Path("gone.cases.yaml")], settings)
