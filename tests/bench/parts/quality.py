"""What a suite costs: ten expectations beside one hand-written aggregation of the same facts, by DuckDB.

``PYTHONPATH=. python tests/bench/parts/quality.py``, or ``make bench``. Needs neither Spark nor a broker.
Writes its section of docs/performance-tables.md. Both ways are interleaved, so that what else the machine
does hits both alike. The command as a whole, with the Data Docs, is measured on a table of ten rows: its
fixed cost.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
from deltalake import write_deltalake

from common.config.paths import Layout
from common.config.settings import load_settings
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.query.duckdb_views import Database
from orchestration.quality.session import QualitySession
from orchestration.quality.versions import pin
from tests.bench.reporting import page

SIZES = (1_000_000, 10_000_000)
ROUNDS = 5
MOST_TIMES, MOST_SECONDS = 2.0, 5.0

PIPELINE = """
from medallion import *
pipeline = Pipeline(
    name="bench",
    bronze=[Topic("orders")],
    silver=[Silver(
        "orders", reads="bronze.orders",
        value=Json("id bigint, country string, code string, amount double, quantity int, at timestamp"),
        columns=["id", "country", "code", "amount", "quantity", "at"],
        key=["id"], event_time="at", watermark="1 day",
    )],
    quality=[Quality("silver.orders", [
        RowCount(1), Unique(["id"]), NullShare("country", 0.01), NullShare("at"),
        InRange("amount", min=0, max=1000), InRange("quantity", min=1, max=9),
        InSet("country", ["de", "fr", "it", "es", "pt", "nl"]), Matches("code", "^[A-Z]{2}[0-9]+$"),
        ValueShare("country", "de", max=0.5), Freshness("at", "3650 days"),
    ])],
)
"""

BY_HAND = """
select count(*), count(*) - count(distinct id), count(country), count("at"),
       count(*) filter (amount not between 0 and 1000), count(amount),
       count(*) filter (quantity not between 1 and 9), count(quantity),
       count(*) filter (country not in ('de', 'fr', 'it', 'es', 'pt', 'nl')),
       count(*) filter (not regexp_matches(code, '^[A-Z]{{2}}[0-9]+$')), count(code),
       count(*) filter (country = 'de'), max("at")
from delta_scan('{path}', version = 0)
"""

ROWS = """
select range as id, ['de', 'fr', 'it', 'es', 'pt', 'nl'][1 + range % 6] as country,
       chr((65 + range % 26)::int) || chr((65 + range % 25)::int) || range as code,
       (range * 7919 % 100000) / 100.0::double as amount, (1 + range % 9)::int as quantity,
       '2026-01-01'::timestamptz + to_seconds(range) as at
from range({rows})
"""


def main() -> None:
    """Measure, print, and write the report."""
    lines = [
        "| rows | ten expectations | one hand-written aggregation | times | bound |",
        "|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        file = folder / "shop.py"
        file.write_text(PIPELINE)
        for rows in SIZES:
            ours, theirs = measured(folder, file, rows)
            times = statistics.median(ours) / statistics.median(theirs)
            lines.append(
                f"| {rows:,} | {statistics.median(ours):.2f} s | {statistics.median(theirs):.2f} s "
                f"| {times:.2f} | {MOST_TIMES:g} |"
            )
        fixed = command_seconds(folder, file)
    text = (
        f"Medians of {ROUNDS} rounds in one process; `quality.results` is written in each. The key is "
        "counted by a query of its own, which also counts the rows that share a key. The whole command "
        f"`medallion quality run` on a table of ten rows takes {fixed['--docs']:.1f} s with the Data Docs "
        f"and {fixed['--no-docs']:.1f} s without them (bound: {MOST_SECONDS:g} s, files of Python in the "
        "page cache)."
    )
    lines += ["", text]
    if "--no-page" in sys.argv:
        sys.stdout.write("\n".join(lines) + "\n")
        return
    machine = (
        f"{platform.machine()}, {page.cpu_name()}, {os.cpu_count()} cores; DuckDB {duckdb.__version__}, "
        f"Python {platform.python_version()}; {datetime.now(UTC):%Y-%m-%d}."
    )
    sys.stdout.write(page.put("Quality: ten expectations on one table", lines, machine))


def measured(folder: Path, file: Path, rows: int) -> tuple[list[float], list[float]]:
    """Seconds of a suite, and of the hand-written aggregation, per round."""
    pipeline = load_pipeline(file)
    settings = load_settings(overrides=[f"data_dir={folder / str(rows)}"])
    layout = Layout.of(pipeline, settings)
    path = layout.table_path("silver.orders")
    write_deltalake(path, duckdb.sql(ROWS.format(rows=rows)).to_arrow_reader(1_000_000))
    session = QualitySession(pipeline, settings, layout, _no_spark)
    suites = [(pipeline.quality[0], pin(layout, "silver.orders"))]

    def ours() -> None:
        ((_, result),) = session.evaluate(suites)
        assert result.is_met

    def theirs() -> None:
        found = Database().connection.execute(BY_HAND.format(path=path)).fetchall()
        assert found[0][:2] == (rows, 0)

    ways: tuple[Callable[[], None], ...] = (ours, theirs)
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS + 1):  # the first warms the page cache
        for way, seconds in zip(ways, spent, strict=True):
            began = time.perf_counter()
            way()
            seconds.append(time.perf_counter() - began)
    return spent[0][1:], spent[1][1:]


def command_seconds(folder: Path, file: Path) -> dict[str, float]:
    """Seconds of the command on a table of ten rows, with and without the Data Docs."""
    path = folder / "few" / "bench" / "tables" / "silver" / "orders"
    write_deltalake(str(path), duckdb.sql(ROWS.format(rows=10)).to_arrow_table())
    words = ("quality", "run", "-p", str(file), "--set", f"data_dir={folder / 'few'}")
    found: dict[str, float] = {}
    for docs in ("--docs", "--no-docs"):
        spent = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "orchestration", *words, docs], check=True, capture_output=True
            )
            spent.append(time.perf_counter() - began)
        found[docs] = statistics.median(spent[1:])
    return found


def _no_spark() -> object:
    raise AssertionError("short forms of a local table need no Spark")


if __name__ == "__main__":
    main()
