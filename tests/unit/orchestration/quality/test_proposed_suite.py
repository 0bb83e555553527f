"""The suite that ``medallion quality profile`` proposes: good months pass, and corrupted ones do not.

The months are made in the manner of public flight data: delays with a long tail, cancelled flights, no
departures at night, and volumes, shares and delays that differ from month to month.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import medallion
from common.config.paths import Layout
from common.config.settings import load_settings
from common.declare import Pipeline, Quality, Topic
from orchestration.author.check.pipeline import check
from orchestration.quality.engines import DuckDbEngine, Pinned
from orchestration.quality.evaluate import duplicate_rows
from orchestration.quality.judgement import SuiteResult
from orchestration.quality.profiles.describe import profile
from orchestration.quality.profiles.propose import propose, source
from orchestration.quality.session import QualitySession
from orchestration.quality.versions import pin
from tests.support.shops import plain_silver

NOW = datetime(2013, 9, 1, tzinfo=UTC)
FIRST = datetime(2013, 1, 1, tzinfo=UTC)
TABLE = "silver.flights"
COLUMNS = {
    "flight_id": ("string", pa.string()),
    "carrier": ("string", pa.string()),
    "tailnum": ("string", pa.string()),
    "origin": ("string", pa.string()),
    "scheduled_at": ("timestamp", pa.timestamp("us", "UTC")),
    "departed_at": ("timestamp", pa.timestamp("us", "UTC")),
    "arrived_at": ("timestamp", pa.timestamp("us", "UTC")),
    "updated_at": ("timestamp", pa.timestamp("us", "UTC")),
    "dep_delay": ("double", pa.float64()),
    "distance": ("double", pa.float64()),
    "fuel": ("double", pa.float64()),
    "is_cancelled": ("boolean", pa.bool_()),
    "remark": ("string", pa.string()),
    "order": ("bigint", pa.int64()),
    "sequence": ("bigint", pa.int64()),
}
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E")
WORDS = (
    "late",
    "inbound",
    "crew",
    "de-iced",
    "gate",
    "changed",
    "weather",
    "hold",
    "at",
    "the",
    "stand",
    "fuel",
)
Row = dict[str, Any]


def month(number: int) -> list[Row]:
    """The flights of one month: about three thousand."""
    drawn = random.Random(number)  # noqa: S311  # the same flights in every run
    begin = FIRST + timedelta(days=30 * (number - 1))
    storm, count = drawn.uniform(0.7, 1.5), round(3_000 * drawn.uniform(0.88, 1.12))
    rows = []
    for at in range(count):
        scheduled = begin + timedelta(
            days=drawn.randrange(30), hours=drawn.triangular(5, 22, 9), minutes=drawn.randrange(60)
        )
        distance = drawn.choice([187, 502, 733, 1_089, 1_400, 2_475])
        is_cancelled = drawn.random() < 0.02 * storm
        delay = round(drawn.gauss(-4, 4) if drawn.random() < 0.65 else drawn.expovariate(1 / (35 * storm)))
        departed = scheduled + timedelta(minutes=delay)
        arrived = departed + timedelta(minutes=20 + distance / 7.5 + drawn.gauss(0, 8))
        new = number > 1 and at < 6  # a carrier that has begun this month
        text = " ".join(drawn.choices(WORDS, k=drawn.randint(2, 9)))
        rows.append(
            {
                "flight_id": f"F{number:02}-{at:05}",
                "carrier": "HA" if new else drawn.choices(CARRIERS, [9, 8, 7, 6, 5, 4, 3, 2])[0],
                "tailnum": None if drawn.random() < 0.004 else f"N{drawn.randrange(10_000, 99_999)}",
                "origin": drawn.choice(("EWR", "JFK", "LGA")),
                "scheduled_at": scheduled,
                "departed_at": None if is_cancelled else departed,
                "arrived_at": None if is_cancelled else arrived,
                "updated_at": scheduled
                if is_cancelled
                else arrived + timedelta(minutes=drawn.uniform(1, 90)),
                "dep_delay": None if is_cancelled else float(delay),
                "distance": float(distance),
                "fuel": round(distance * drawn.uniform(4.5, 6.5), 2),
                "is_cancelled": is_cancelled,
                "order": at,  # a word of SQL
                "sequence": round(scheduled.timestamp()),  # goes on for ever
                "remark": "" if drawn.random() < 0.005 else text,
            }
        )
    return rows


TIMES = ("scheduled_at", "departed_at", "arrived_at", "updated_at")


def each(change: Callable[[Row], Row]) -> Callable[[list[Row]], list[Row]]:
    """A corruption of every row."""
    return lambda rows: [row | change(row) for row in rows]


def fifth(change: Callable[[Row], Row]) -> Callable[[list[Row]], list[Row]]:
    """A corruption of every fifth row."""
    return lambda rows: [row | (change(row) if at % 5 == 0 else {}) for at, row in enumerate(rows)]


def moved(names: tuple[str, ...], by: timedelta) -> Callable[[Row], Row]:
    """Times that are off."""
    return lambda row: {name: row[name] and row[name] + by for name in names}


def number_of(name: str, change: Callable[[float], float]) -> Callable[[Row], Row]:
    """A column of numbers that is changed where it has a value."""
    return lambda row: {name: None if row[name] is None else change(row[name])}


CORRUPTIONS: dict[str, Callable[[list[Row]], list[Row]]] = {
    "all times are five hours off": each(moved(TIMES, timedelta(hours=5))),
    "departure and arrival are swapped": each(
        lambda row: {"departed_at": row["arrived_at"], "arrived_at": row["departed_at"]}
    ),
    "a fifth of the texts is empty": fifth(lambda row: {"remark": ""}),
    "a delay is always 0": each(number_of("dep_delay", lambda _: 0.0)),
    "dates are in 2031": each(moved(TIMES, timedelta(days=18 * 365))),
    "a tenth of the plane numbers is null": lambda rows: [
        row | ({"tailnum": None} if at % 10 == 0 else {}) for at, row in enumerate(rows)
    ],
    "a carrier has another name": each(
        lambda row: {"carrier": "U2" if row["carrier"] == "DL" else row["carrier"]}
    ),
    "some rows are there twice": lambda rows: rows + rows[:30],
    "digits after the point are cut": each(number_of("fuel", math.floor)),
    "miles are kilometres": each(number_of("distance", lambda miles: miles * 1.609)),
    "texts are cut at 12 characters": each(lambda row: {"remark": row["remark"][:12]}),
    "the key is constant": each(lambda _: {"flight_id": "F02-00000"}),
    "a tenth of the rows has arrived": lambda rows: rows[: len(rows) // 10],
}
"""The thirteen that a suite has to find."""
MORE: dict[str, Callable[[list[Row]], list[Row]]] = {
    "departures alone are five hours off": each(moved(("departed_at",), timedelta(hours=5))),
    "minutes are hours": each(number_of("dep_delay", lambda minutes: minutes / 60)),
    "all flights are cancelled": each(lambda _: {"is_cancelled": True}),
    "times without a value are 1970": each(lambda row: {"departed_at": datetime(1970, 1, 1, tzinfo=UTC)}),
}


def declared(suite: Quality | None = None) -> Pipeline:
    """The pipeline of the flights, with a suite."""
    value = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    silver = plain_silver("flights", value, key=["flight_id"], event_time="scheduled_at")
    return Pipeline(
        name="flights", bronze=[Topic("flights")], silver=[silver], quality=[suite] if suite else []
    )


class Judge:
    """Writes months as versions of the table, and judges them by the suite that the first has proposed."""

    def __init__(self, folder: Path) -> None:
        self.settings = load_settings(overrides=[f"data_dir={folder}"])
        self.layout = Layout.of(declared(), self.settings)
        self.write(month(1))
        engine, pinned = DuckDbEngine(), pin(self.layout, TABLE)
        found = profile(engine, pinned, "scheduled_at")
        duplicates = duplicate_rows(engine, pinned, ["flight_id"])
        self.code = source(found, propose(found, ["flight_id"], duplicates, NOW), NOW)
        names: dict[str, Any] = {}
        exec(self.code.replace("Quality(", "suite = Quality(", 1), names)  # noqa: S102  # code to paste
        self.pipeline = declared(names["suite"])

    def write(self, rows: list[Row]) -> None:
        """Replace the table."""
        arrays = {name: pa.array([row[name] for row in rows], type_) for name, (_, type_) in COLUMNS.items()}
        write_deltalake(self.layout.table_path(TABLE), pa.table(arrays), mode="overwrite")

    def of(self, rows: list[Row]) -> SuiteResult:
        """The result of the suite on these rows."""
        self.write(rows)

        def no_spark() -> Any:
            raise AssertionError("the proposed suite needs no Spark")

        session = QualitySession(self.pipeline, self.settings, self.layout, no_spark)
        ((_, result),) = session.evaluate([(self.pipeline.quality[0], pin(self.layout, TABLE))])
        return result


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("months"))


def test_a_table_without_times_or_plain_columns_is_described(tmp_path: Path) -> None:
    for name, column in (("plain", pa.array([1, 2, 3])), ("nested", pa.array([[1], [2]]))):
        path = str(tmp_path / name)
        write_deltalake(path, pa.table({"value": column}))
        found = profile(DuckDbEngine(), Pinned(f"gold.{name}", path, 0))
        assert source(found, propose(found, [], 0, NOW), NOW).count("RowCount(min=1)") == 1
        assert [one.slices.get("mean") for one in found.columns] == ([(2.0,)] if name == "plain" else [])


def failures(result: SuiteResult) -> list[str]:
    """What the suite found."""
    return [
        f"{one.expectation} {one.column}: {one.expected}: {one.observed}"
        for one in result.checked
        if one.is_failure
    ]


def test_the_proposed_suite_is_a_declaration_without_a_problem(judge: Judge) -> None:
    assert medallion.Meets
    assert check(judge.pipeline) == ()


@pytest.mark.parametrize(
    "number", [2, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 3, 4, 5, 6))]
)
def test_good_months_pass(judge: Judge, number: int) -> None:
    """The month that the suite was made of, and five that it has not seen."""
    assert failures(judge.of(month(number))) == []


@pytest.mark.long
@pytest.mark.parametrize("name", [*CORRUPTIONS, *MORE])
def test_a_corrupted_month_fails(judge: Judge, name: str) -> None:
    """All thirteen are found, and four more."""
    assert failures(judge.of((CORRUPTIONS | MORE)[name](month(2)))) != []
