"""Records that retention deleted before bronze read them: refused, accepted by one command, accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from common.config.paths import GAPS
from common.declare import Json, Message, Pipeline, Silver, Topic
from common.errors import RecordsGoneError
from orchestration.change.recover import accept_gap
from orchestration.change.recover.carry_out import accept_all_gaps, recover_all
from orchestration.cli.change.recover_output import gap_line
from orchestration.records.audit.audit import audit
from orchestration.run.topic_checks import broker_asker
from tests.conftest import make_settings
from tests.support.engine import Engine


def _pipeline(topic: str) -> Pipeline:
    return Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[
            Silver(
                "orders",
                reads="bronze.orders",
                value=Json("id int"),
                columns={"id": "id", "at": "_kafka.timestamp"},
                key=["id"],
                event_time="at",
                watermark="7 days",
            )
        ],
    )


@pytest.mark.long
def test_what_retention_has_deleted_is_written_down_and_gone_on_after(
    spark: Any,
    broker: str,
    topic: str,
    send: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gap is written once, also if the command is killed; then the audit balances with it."""
    engine = Engine(spark, _pipeline(topic), make_settings(tmp_path, broker), broker)
    send(topic, [Message(b"%d" % n, b'{"id": %d}' % n) for n in range(30)])
    engine.run()
    send(topic, [Message(b"%d" % n, b'{"id": %d}' % n) for n in range(30, 60)])
    read = Counter(row["partition"] for row in engine.rows("bronze.orders"))
    gone = {partition: read[partition] + 4 for partition in range(3)}
    places = [TopicPartition(topic, partition, end) for partition, end in gone.items()]
    client = AdminClient({"bootstrap.servers": broker})  # its results come only while it lives
    for one in client.delete_records(places).values():
        one.result(30)
    with pytest.raises(RecordsGoneError):
        engine.run("bronze")
    assert {fault.name for fault in _audit(engine).faults} == {"topic"}
    args = (engine.pipeline, engine.settings, engine.layout)
    (planned,) = accept_all_gaps(*args, is_plan=True, spark=lambda: spark)
    assert not Path(engine.path(GAPS)).exists()

    monkeypatch.setattr(accept_gap, "append_without_rows", _killed)
    with pytest.raises(KeyboardInterrupt):
        accept_all_gaps(*args, spark=lambda: spark)
    monkeypatch.undo()
    (again,) = accept_all_gaps(*args, spark=lambda: spark)
    assert again.gaps == ()
    assert accept_all_gaps(*args, spark=lambda: spark)[0].gaps == ()
    assert recover_all(*args, spark=lambda: spark).steps == ()

    engine.run()
    assert [(gap.partition, gap.first_offset, gap.last_offset) for gap in planned.gaps] == [
        (partition, read[partition], end - 1) for partition, end in sorted(gone.items())
    ]
    line = gap_line(planned.gaps[0], is_plan=True)
    print(line)  # noqa: T201  # as the command prints it
    assert line.startswith("bronze.orders: 4 offsets would be accepted as lost (retention): ")
    assert "unknown" not in line
    written = engine.rows(GAPS)
    assert Counter((r["topic"], r["partition"], r["first_offset"], r["offsets"]) for r in written) == Counter(
        (topic, partition, read[partition], 4) for partition in range(3)
    )
    assert all(r["read_at"] <= r["next_at"] for r in written)
    held = Counter(row["partition"] for row in engine.rows("bronze.orders"))
    assert sum(held.values()) == 60 - 12
    assert len(engine.rows("silver.orders")) == 60 - 12
    account = _audit(engine)
    assert (account.faults, account.offsets, account.totals["gaps"]) == ((), 60, 12)


def _audit(engine: Engine) -> Any:
    ask = broker_asker(engine.pipeline, engine.settings, engine.layout)
    silver = engine.pipeline.silver[0]
    return audit(engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0, ask=ask)


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt
