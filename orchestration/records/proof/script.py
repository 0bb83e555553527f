"""A script for DuckDB by which anybody checks a pipeline's tables without the engine.

It names each table at one version, takes from the logs what bronze has read and what was counted, and
computes everything else from the rows: the place of every offset, the witness of each duplicate, silver's
values from bronze's bytes, and each gold table from its definition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Silver
from common.sql.quoting import standard_text
from orchestration.access.query.duckdb_views import Database
from orchestration.records.proof.checks import END, START, heading, not_compared
from orchestration.records.proof.given import given
from orchestration.records.proof.gold_checks import gold_checks
from orchestration.records.proof.silver_checks import SilverChecks
from orchestration.records.proof.tables import Tables, as_duckdb_has_it

_HEAD = """\
-- Proof of the pipeline {name}, written {at} by medallion audit --script.
--
-- Run it with DuckDB (1.3 or newer), which reads the tables with its Delta extension, deletion vectors
-- included:
--   duckdb < proof.sql
--   python -c "import duckdb; print(duckdb.sql(open('proof.sql').read()))"
-- It needs nothing of the engine and writes nothing. Each check is a row: 'equal', 'different', or
-- 'not compared' with the reason. The last row is all of them; if one differs, the script ends with an error.
-- A check that DuckDB itself cannot finish, such as for a damaged file, is different; the first way goes on
-- with the others, the second one ends there with DuckDB's message.
-- Without a network, install the extension first: https://duckdb.org/docs/stable/core_extensions/delta
-- Tables in an object store need a secret before: CREATE SECRET (TYPE s3, PROVIDER credential_chain);

SET TimeZone = 'UTC';

-- Where the tables are. Change it where their folder has another path, or to check a copy.
SET VARIABLE lake = {lake};
"""


def write(pipeline: Pipeline, silvers: Sequence[Silver], layout: Layout, settings: Settings) -> str:
    """The text of the script for some silver tables, and for the gold tables if these are all.

    Raises:
        TableMissingError: A bronze table does not exist yet.
        TableError: A table cannot be read.
    """
    tables = Tables(Database(), layout.warehouse)
    parts: list[str] = []
    for silver in silvers:
        parts += _silver(pipeline, silver, layout, tables, settings.gold.accept_commits)
    if len(silvers) == len(pipeline.silver):
        parts += gold_checks(pipeline, layout, tables, settings.gold)
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%SZ}"
    head = _HEAD.format(name=pipeline.name, at=at, lake=standard_text(as_duckdb_has_it(layout.warehouse)))
    views = "\n".join(dict.fromkeys(tables.statements))
    named = heading("The tables, each at the version that this script is about")
    return "\n".join([head, START, named, views, *parts, heading("The result"), END])


def _silver(
    pipeline: Pipeline, silver: Silver, layout: Layout, tables: Tables, accepted: Collection[str]
) -> list[str]:
    """The statements of one silver table."""
    if len(silver.sources) > 1:
        why = f"it reads {silver.read_text}, which medallion audit counts and this script does not"
        return [heading(silver.table), not_compared(silver.table, "offsets", why)]
    topic = next(each for each in pipeline.bronze if each.table == silver.source)
    known = given(tables.database, layout, topic, silver, accepted)
    views = {
        log.table: None if log.version is None else tables.view(log.table, log.path, log.version)
        for log in known.pins.tables
    }
    bronze, mine = views[silver.source], views[silver.table]
    erased = None if known.erased is None else tables.view("ops.erased", *known.erased)
    columns = dict(tables.columns(mine)) if mine is not None else {}
    waiting = tuple(map(tables.located, known.waiting))
    checks = SilverChecks(
        known,
        bronze or "",
        mine,
        views[silver.late_table],
        views[silver.quarantine],
        erased,
        waiting,
        columns,
    )
    return list(checks.statements())
