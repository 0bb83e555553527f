"""The small files of facts that 0.2.0 wrote, byte for byte: each is read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from bronze.beginning import RECORDED, RecordedBeginning
from common.config.paths import Layout
from common.delta.maintenance import retention
from common.streaming.attempt_mark import AttemptMark, EarlierAttempts
from orchestration.access.declaration.last_declaration import Declaration, recorded
from orchestration.access.embedded_broker import state_folder as broker
from orchestration.access.history import alert_state, catalog_state, job_state, stopped_queries
from orchestration.access.progress import query_states
from orchestration.change.backfill import runs
from orchestration.records.rejudge import stage
from silver.write.poison_search import OffsetRange, PoisonSearch

AT = datetime(2026, 10, 1, 12, 0, 0, 123456, tzinfo=UTC)
TEXT = "2026-10-01T12:00:00.123456+00:00"
ISO = "2026-10-01T12:00:00.000+00:00"


def layout(folder: Path) -> Layout:
    return Layout(str(folder / "tables"), str(folder), folder)


class Former(NamedTuple):
    """A file of 0.2.0: its name, its text, how it is read, and what is read."""

    name: str
    text: str
    read: Callable[[Path], object]
    value: object


FILES = {
    "job": Former(
        "up.json",
        f'{{"job": "up", "run_id": "r1", "pid": 77, "host": "h", "started_at": "{TEXT}", "at": "{TEXT}", '
        f'"queries": {{"silver.orders": {{"state": "working", "since": "{TEXT}", "batch_id": 4, "error": "", '
        f'"restarts": 1, "last_batch": {{"batch_id": 4, "ended_at": "{TEXT}", "duration_ms": 900, '
        '"phases_ms": {"addBatch": 700}, "state_rows": null, "state_bytes": null}, "has_end": false}}, '
        '"ended": "", "error": "", "mark": "123"}',
        job_state.read_states,
        (
            job_state.JobState(
                "up",
                "r1",
                77,
                "h",
                AT,
                AT,
                {
                    "silver.orders": job_state.JobQuery(
                        "working",
                        AT,
                        4,
                        restarts=1,
                        last_batch=job_state.BatchFacts(4, AT, 900, {"addBatch": 700}, None, None),
                    )
                },
                mark="123",
            ),
        ),
    ),
    "alerts": Former(
        "state.json",
        f'{{"watched_at": "{TEXT}", "pid": 7, "host": "h", "seconds": 15.0, "rules": {{"query_dead": '
        '"critical"}, "channels": {"page": ""}, "alerts": [{"rule": "query_dead", "table": "gold.x", '
        f'"severity": "critical", "text": "it is dead", "since": "{TEXT}", "raised_at": "{TEXT}", '
        '"clear_since": null, "resolved_at": null, "told": ["page"]}], "restarts": {"gold.x": '
        f'{{"job_started_at": "{TEXT}", "count": 1, "was_faulty": true, "times": ["{TEXT}"]}}}}, '
        '"unknown": ["lag"]}',
        alert_state.read_alerts,
        alert_state.AlertsFile(
            AT,
            7,
            "h",
            15.0,
            {"query_dead": "critical"},
            {"page": ""},
            (
                alert_state.AlertState(
                    "query_dead", "gold.x", "critical", "it is dead", AT, AT, told=("page",)
                ),
            ),
            {"gold.x": alert_state.Restarts(AT, 1, True, (AT,))},
            ("lag",),
        ),
    ),
    "catalog": Former(
        "up.json",
        f'{{"silver.orders": {{"name": "dev_silver.orders", "registered_at": "{TEXT}", "error": ""}}}}',
        catalog_state.read_entries,
        {"silver.orders": catalog_state.CatalogEntry("dev_silver.orders", AT)},
    ),
    "query": Former(
        "silver.orders.json",
        '{"query": "silver.orders", "pid": 7, "state": "waits", "kind": "transient", "subject": "the Kafka '
        f'broker", "error": "no answer", "since": "{ISO}", "next_restart_at": null, "restarts": 1, '
        f'"last_restarts": [{{"at": "{ISO}", "subject": "the Kafka broker"}}]}}',
        lambda folder: query_states.read_state(folder, "silver.orders"),
        query_states.QueryState(
            "silver.orders",
            7,
            "waits",
            "transient",
            "the Kafka broker",
            "no answer",
            ISO,
            restarts=1,
            last_restarts=(query_states.Restart(ISO, "the Kafka broker"),),
        ),
    ),
    "backfill": Former(
        "20261001T120000123456Z.json",
        f'{{"started_at": "{TEXT}", "options": "--layer silver", "pid": 7, "host": "h", "mark": "123", '
        f'"ended_at": "{TEXT}", "ended": "failed", "error": "away", "layers": [{{"layer": "silver", "rows": '
        '10, "seconds": 1.5}]}',
        runs.read_runs,
        [
            runs.BackfillRun(
                AT,
                "--layer silver",
                7,
                "h",
                "123",
                AT,
                "failed",
                "away",
                (runs.LayerRead("silver", 10, 1.5),),
            )
        ],
    ),
    "stopped query": Former(
        "gold.latest__stopped.json",
        f'{{"at": "{TEXT}"}}',
        lambda folder: stopped_queries.stopped_since(layout(folder), "gold.latest"),
        AT,
    ),
    "identity of a broker": Former(
        "identity.json",
        '{\n "cluster_id": "c",\n "kafka_version": "4.3.0",\n "port": 9092,\n "controller_port": 9093\n}',
        lambda folder: broker.identity_of(folder, "4.3.1"),
        broker.Identity("c", "4.3.0", 9092, 9093),
    ),
    "state of a broker": Former(
        "broker.json",
        '{\n "pid": 7,\n "process_start": "123",\n "port": 9092,\n "controller_port": 9093,\n '
        f'"kafka_version": "4.3.0",\n "cluster_id": "c",\n "started_at": "{ISO}"\n}}',
        broker.read_state,
        broker.State(7, "123", 9092, 9093, "4.3.0", "c", ISO),
    ),
    "switch": Former(
        "silver.orders__switch.json",
        '{\n "query_id": "q",\n "versions": {\n  "silver.orders": 3\n },\n "kept": "/former/a",\n "coming": '
        '"/former/b",\n "restores": null,\n "is_done": false,\n "bronze_version": 5\n}',
        lambda folder: stage.last_record(layout(folder), "silver.orders", stage.Switch) is not None,
        True,
    ),
    "restatement": Former(
        "silver.orders__restate.json",
        '{\n "run_id": "r",\n "options": "--where x",\n "versions": {\n  "silver.orders": 3\n },\n "is_done"'
        ": true\n}",
        lambda folder: stage.last_record(layout(folder), "silver.orders", stage.Restatement),
        stage.Restatement("r", "--where x", {"silver.orders": 3}, is_done=True),
    ),
    "declaration": Former(
        "medallion_declaration.json",
        '{\n "kind": "Upsert",\n "attributes": {\n  "keys": "[caf\\u00e9]"\n },\n "settings": {\n  '
        '"gold.merge": "x"\n }\n}',
        lambda folder: recorded(str(folder)),
        Declaration("Upsert", {"keys": "[café]"}, {"gold.merge": "x"}),
    ),
    "poison": Former(
        "c.poison/found.json",
        '{"found": [["orders", 0, 17]], "search": {"batch_id": 3, "left": [{"topic": "orders", "partition": '
        '0, "first": 1, "last": 9, "deaths": 0}], "trying": null, "ended_after": null}}',
        lambda folder: PoisonSearch("silver.orders", f"{folder}/c").found,
        (("orders", 0, 17),),
    ),
    "attempt": Former(
        "attempt",
        '{"batch_id": 4, "attempts": 2}',
        lambda folder: AttemptMark(str(folder)).earlier(4),
        EarlierAttempts(2),
    ),
    "attempt that raised": Former(
        "attempt",
        '{"batch_id": 4, "attempts": 2, "has_raised": true, "failed_at_row": true}',
        lambda folder: AttemptMark(str(folder)).earlier(4),
        EarlierAttempts(2, has_raised=True, failed_at_row=True),
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_the_former_version_is_read(kind: str, tmp_path: Path) -> None:
    former = FILES[kind]
    (tmp_path / former.name).parent.mkdir(exist_ok=True)
    (tmp_path / former.name).write_text(former.text, encoding="utf-8")
    assert former.read(tmp_path) == former.value


def test_a_search_of_the_former_version_goes_on(tmp_path: Path) -> None:
    (tmp_path / "c.poison").mkdir()
    (tmp_path / "c.poison" / "found.json").write_text(FILES["poison"].text, encoding="utf-8")
    read: list[OffsetRange] = []
    PoisonSearch("silver.orders", f"{tmp_path}/c").run(3, 3, list, read.append, lambda: True)
    assert read == [OffsetRange("orders", 0, 1, 9)]


def test_properties_of_a_table_of_the_former_version_are_read() -> None:
    expired = f'{{"orders":{{"offsets":{{"0":[0,40]}},"oldest":"{TEXT}","newest":null}}}}'
    assert retention.expired_topics({retention.EXPIRED: expired}) == {
        "orders": retention.ExpiredTopic({0: (0, 40)}, AT)
    }
    begins = '{"option": "orders/0=7", "offsets": {"orders": {"0": 7}}}'
    assert RECORDED.parse(begins) == RecordedBeginning("orders/0=7", {"orders": {0: 7}})
