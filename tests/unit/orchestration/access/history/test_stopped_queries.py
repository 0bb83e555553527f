"""A query that an operator has stopped: kept beside its checkpoint, and shown as what it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from common.config.paths import Layout
from common.declare import Pipeline, Topic
from orchestration.access.history.stopped_queries import keep_started, keep_stopped, stopped_since
from orchestration.observe.status.model import QueryNow
from orchestration.observe.status.query_state import held
from tests.conftest import make_settings

PIPELINE = Pipeline("shop", bronze=[Topic("orders")])
QUERY = "gold.latest"


def test_a_query_is_stopped_until_it_is_started(tmp_path: Path) -> None:
    layout = Layout.of(PIPELINE, make_settings(tmp_path, "none:1"))
    assert stopped_since(layout, QUERY) is None
    assert not keep_started(layout, QUERY)
    keep_stopped(layout, QUERY)
    since = stopped_since(layout, QUERY)
    assert since is not None
    assert datetime.now(UTC) - since < timedelta(minutes=1)
    assert stopped_since(layout, "gold.latest_orders") is None
    keep_stopped(layout, QUERY)
    assert stopped_since(layout, QUERY) == since
    assert keep_started(layout, QUERY)
    assert stopped_since(layout, QUERY) is None


def test_a_file_that_is_cut_off_still_says_that_the_query_is_stopped(tmp_path: Path) -> None:
    layout = Layout.of(PIPELINE, make_settings(tmp_path, "none:1"))
    keep_stopped(layout, QUERY)
    checkpoint = Path(layout.checkpoint_path(QUERY))
    (checkpoint.parent / f"{checkpoint.name}__stopped.json").write_text('{"at": "20')
    assert stopped_since(layout, QUERY) is not None


def test_a_stopped_query_is_shown_so_once_its_micro_batch_has_ended() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    working, stalled = QueryNow("working", "micro-batch 3"), QueryNow("stalled", "no progress", error="x")
    assert held(working, QUERY, since) is working
    assert held(stalled, QUERY, None) is stalled
    shown = held(stalled, QUERY, since)
    assert (shown.state, shown.error, shown.since, shown.is_faulty) == ("stopped", "", since, False)
    assert shown.phase.endswith("to go on: medallion start gold.latest")
