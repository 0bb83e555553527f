"""W17: what a micro-batch of a view costs by changes, whole, and in the way that the engine chooses.

Each statement is declared three times: kept by changes, kept whole, and free. Silver's amounts change for a
share of the customers, spread over all files, so that no file is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from common.config.paths import Layout
from common.declare import Json, Pipeline, Silver, Topic, View
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.micro_batch import MicroBatch
from common.spark import jvm
from common.spark.session import build_session
from distribution.bench.data import history
from distribution.bench.measure.spent import Spent, settings_in, spent
from distribution.bench.measure.stats import Goal, median, number, ratio
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import Run
from orchestration.run.wiring import Wiring

PER_CUSTOMER = 10
SHARES = (1.0, 1e-1, 1e-3, 1e-5)
MOST_OF_CHEAPER = 1.2
FREE = "free"
_PER_FILE = 100_000

STATEMENTS: Mapping[str, tuple[Any, str]] = {
    "group": (
        "by key",
        "select customer, count(*) as orders, sum(amount) as total from silver.orders group by customer",
    ),
    "join": (
        "by row",
        (
            "select o.order_id, o.amount, c.country from silver.orders o join silver.customers c "
            "on c.customer = o.customer"
        ),
    ),
    "groups of groups": (
        "by key",
        (
            "select c.country, count(*) as customers, sum(t.total) as total from silver.customers c left "
            "join (select customer, sum(amount) as total from silver.orders group by customer) t "
            "on t.customer = c.customer where c.customer not in (select customer from silver.blocked) "
            "group by c.country"
        ),
    ),
}
"""How each is kept by changes, and its text."""

_COLUMNS = {
    "orders": {"order_id": pa.int64(), "customer": pa.int64(), "amount": pa.int64()},
    "customers": {"customer": pa.int64(), "country": pa.string()},
    "blocked": {"customer": pa.int64()},
}
_AT = pa.timestamp("us", "UTC")
_SPARK = {pa.int64(): "bigint", pa.string(): "string", _AT: "timestamp"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One micro-batch.

    Attributes:
        statement: One of ``STATEMENTS``.
        declared: The way that is declared, or ``FREE``.
        kept: The way that it took.
        rows: Rows of silver's orders.
        share: Of the customers, whose orders changed.
        spent: To the commit.
    """

    statement: str
    declared: str
    kept: str
    rows: int
    share: float
    spent: Spent


def pipeline() -> Pipeline:
    """Three silver tables; a view of each statement in each way, and one that is free."""
    tables = [
        Silver(
            name,
            reads=f"bronze.{name}",
            value=Json(", ".join(f"{one} {_SPARK[kind]}" for one, kind in (columns | {"at": _AT}).items())),
            columns=[*columns, "at"],
            key=[next(iter(columns))],
            event_time="at",
            watermark="1 day",
        )
        for name, columns in _COLUMNS.items()
    ]
    views = [
        View(_name(name, way), sql=sql, kept=None if way == FREE else way)  # type: ignore[arg-type]
        for name, (kept, sql) in STATEMENTS.items()
        for way in (kept, "whole", FREE)
    ]
    return Pipeline("bench", bronze=[Topic(name) for name in _COLUMNS], silver=tables, gold=views)


def _name(statement: str, way: str) -> str:
    return f"{statement}_{way}".replace(" ", "_")


class Kept:
    """The views over silver tables of a size."""

    def __init__(self, run: Run, spark: Any, folder: Path, rows: int) -> None:
        folder.mkdir()
        self._spark, self.rows, self._customers = spark, rows, max(1, rows // PER_CUSTOMER)
        declared, settings = pipeline(), settings_in(folder, run.broker.bootstrap_servers, run.settings)
        self._layout = Layout.of(declared, settings)
        for name, found in self._made().items():
            path = self._silver(name)
            history.created(path, found.schema, {"delta.enableChangeDataFeed": "true"})
            history.append(path, found, files=max(1, found.num_rows // _PER_FILE))
        self._streams = {
            one.name: one for one in Wiring(spark, declared, settings, self._layout, "").streams("gold")
        }
        self._sources = {gold.table: gold.sources for gold in declared.gold}
        self._batches = 0
        for name, way in self._views():
            self._write(name, way)

    def _views(self) -> Sequence[tuple[str, str]]:
        return [(name, way) for name, (kept, _) in STATEMENTS.items() for way in (kept, "whole", FREE)]

    def _made(self) -> Mapping[str, pa.Table]:
        order, customer = np.arange(self.rows), np.arange(self._customers)
        # Orders of a customer lie in all files.
        columns = {
            "orders": [order, order % self._customers, order % 1_000],
            "customers": [customer, np.char.add("land ", (customer % 50).astype(str))],
            "blocked": [np.array([-1])],
        }
        found = {}
        for name, kinds in _COLUMNS.items():
            at = np.full(len(columns[name][0]), 1_767_225_600_000_000).astype("datetime64[us]")
            schema = pa.schema(kinds | {"at": _AT})
            found[name] = pa.table([*columns[name], at], names=schema.names).cast(schema)
        return found

    def _silver(self, name: str) -> Path:
        return Path(self._layout.table_path(f"silver.{name}"))

    def _write(self, name: str, way: str) -> None:
        query = f"gold.{_name(name, way)}"
        versions = (DeltaTable(str(self._layout.table_path(each))).version() for each in self._sources[query])
        positions = tuple({"reservoirVersion": version + 1, "index": -1} for version in versions)
        empty = self._spark.range(0).selectExpr("0 as source")
        self._streams[query].write(empty, MicroBatch("bench", query, "q", self._batches, positions))

    def turn(self, share: float) -> list[Measured]:
        """Change the orders of a share of the customers, and write a micro-batch of each view."""
        every = max(1, min(self._customers, round(1 / share)))
        DeltaTable(str(self._silver("orders"))).update(
            predicate=f"customer % {every} = {self._batches % every}", updates={"amount": "amount + 1"}
        )
        self._batches += 1
        return [self._measured(name, way, share) for name, way in self._views()]

    def _measured(self, name: str, way: str, share: float) -> Measured:
        before = spent(self._spark)
        self._write(name, way)
        used = spent(self._spark).since(before)
        query = f"gold.{_name(name, way)}"
        last = last_commit_metadata(self._layout.table_path(query), query) or {}
        kept = last.get("counts", {}).get("kept", {}).get("way", way)
        return Measured(name, way, kept, self.rows, share, used)

    def wrong(self) -> list[str]:
        """The views that do not equal their statement."""
        found = []
        for name, way in self._views():
            sql = STATEMENTS[name][1]
            for each in _COLUMNS:
                sql = sql.replace(f"silver.{each}", f"delta.`{self._silver(each)}`")
            want, path = self._spark.sql(sql), self._layout.table_path(f"gold.{_name(name, way)}")
            have = self._spark.read.format("delta").load(path)
            if have.exceptAll(want).count() or want.exceptAll(have).count():
                found.append(f"{self.rows:,} rows: {name} kept {way} is not what its statement gives")
        return found


def choices(run: Run) -> Section:
    """W17."""
    sizes = (10_000, 100_000) if run.quick else (10_000, 1_000_000, run.sized(run.events, 10_000_000, 0))
    folder = run.scratch("choices")
    spark = build_session(
        settings_in(folder, run.broker.bootstrap_servers, run.settings), "bench", folder / "log"
    )
    found: list[Measured] = []
    rounds = run.sized(run.rounds, 3, 1)
    try:
        kept = [Kept(run, spark, folder / f"rows{rows}", rows) for rows in sizes]
        for round_ in range(rounds + 1):
            turns = [one for each in kept for share in SHARES for one in each.turn(share)]
            found += turns if round_ else []  # the first compiles
            run.say(f"choices: round {round_} of {rounds}")
        failures = [fault for each in kept for fault in each.wrong()]
    finally:
        jvm.shut_down(spark, timeout_seconds=60)
    title = "Views: the way that a micro-batch chooses"
    return Section("choices", title, lines(found, rounds), goals(found), found, failures)


def _cases(found: Sequence[Measured]) -> dict[tuple[str, int, float], dict[str, list[Measured]]]:
    """The micro-batches of each statement, size and share, by the way that is declared."""
    cases: dict[tuple[str, int, float], dict[str, list[Measured]]] = {}
    for one in found:
        of_case = cases.setdefault((one.statement, one.rows, one.share), {})
        of_case.setdefault(one.declared, []).append(one)
    return cases


def _cpu(found: Sequence[Measured]) -> float:
    return median([one.spent.cpu for one in found])


def _of_cheaper(ways: Mapping[str, Sequence[Measured]]) -> float:
    """The cost of the free view, in times of the cheaper declared one."""
    return ratio(_cpu(ways[FREE]), min(_cpu(each) for way, each in ways.items() if way != FREE))


def goals(found: Sequence[Measured]) -> list[Goal]:
    """No micro-batch costs much more than the cheaper way."""
    worst = max(map(_of_cheaper, _cases(found).values()))
    what = "W17 view without a declared way, CPU of a micro-batch / the cheaper of both ways, worst case"
    return [Goal(what, worst, MOST_OF_CHEAPER, "at most")]


def lines(found: Sequence[Measured], rounds: int) -> list[str]:
    """The section's text."""
    what = (
        f"Each statement is declared to be kept by changes, to be kept whole, and freely. A commit changes "
        f"the orders of a share of the customers ({PER_CUSTOMER} each, in all files); then a micro-batch of "
        "each view is written by the product's own query with its default settings. CPU ms, median of "
        f"{rounds} rounds; the first is thrown away; in the end each view equalled its statement."
    )
    body = [
        (
            statement,
            f"{rows:,}",
            f"{share:g}",
            *(f"{_cpu(each) * 1000:,.0f}" for each in ways.values()),
            ways[FREE][-1].kept,
            number(_of_cheaper(ways)),
        )
        for (statement, rows, share), ways in _cases(found).items()
    ]
    head = (
        "statement",
        "orders",
        "of the customers",
        "by changes",
        "whole",
        FREE,
        "took",
        "times the cheaper",
    )
    return [what, "", *table(head, body)]
