"""Lives that are told step by step: each is a state in which an older product lost or doubled rows unseen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from common.delta.micro_batch import MicroBatch
from common.streaming.table_watch import SourceWatch
from orchestration.run.wiring import Wiring
from tests.simulation.world import LATEST, ORDERS, World, table

Life = Callable[[World], None]


def _run(world: World, count: int = 20) -> None:
    """A run of the job over some new records."""
    world.produce(count)
    world.start()
    world.settle()
    world.stop()


def _idle(world: World, *scopes: str, versions: Mapping[str, int] | None = None) -> None:
    """Put copies back, or RESTORE tables, while the job idles before its first micro-batch."""
    _run(world)
    copies = {scope: world.copy(scope) for scope in scopes}
    _run(world)
    world.start()
    for scope, copy in copies.items():
        world.put_back(scope, copy)
    for name, version in (versions or {}).items():
        world.restore(name, version)
    for _ in range(3):
        world.produce(10)
        world.settle()


def _broker_put_back(world: World) -> None:
    """While the job runs, a broker comes back with an older copy of its folder, and grows past the reader."""
    world.produce(60)
    world.start()
    world.settle()
    copy = world.broker.copy()
    world.produce(30)
    world.settle()
    world.broker.put_back(copy)
    world.produce(100)
    world.settle()


def _partition_put_back(world: World) -> None:
    """An unclean election loses records of a partition that the first micro-batches did not write."""
    _run(world, 60)
    copy = world.broker.copy()
    _run(world, 30)
    world.start()
    world.produce(5, 0)
    world.settle()
    world.broker.put_back(copy, (1,))
    world.produce(60, 1)
    world.settle()


def _broker_slow(world: World) -> None:
    """A broker that was put back does not give in time what is to be compared: it is waited for."""
    world.produce(60)
    world.start()
    world.settle()
    copy = world.broker.copy()
    world.produce(30)
    world.settle()
    world.broker.put_back(copy)
    world.broker.is_slow = True
    world.produce(100)
    for _ in range(3):
        world.trigger("bronze.orders")
        world.look()
    assert world.refusal is None
    world.broker.is_slow = False
    world.settle()


def _broker_away(world: World) -> None:
    """As above; the queries notice that the broker is away, and are restarted."""
    world.produce(60)
    world.start()
    world.settle()
    copy = world.broker.copy()
    world.produce(30)
    world.settle()
    world.broker.is_away = True
    world.trigger("bronze.orders")
    world.look()
    world.broker.put_back(copy)
    world.broker.is_away = False
    world.produce(100)
    world.settle()


def _aborted(world: World, count: int, before: int) -> None:
    """Bronze has read an aborted transaction last, and the broker is put back behind it, or before it."""
    _run(world)
    copy = world.broker.copy()
    world.produce(before)
    world.abort(count, 0)
    world.abort(count, 1)
    world.start()
    world.settle()
    world.stop()
    world.broker.put_back(copy)
    _run(world, 2 * count + before + 60)


def _put_back_between_runs(world: World, scope: str, more: int = 20) -> None:
    _run(world)
    copy = world.copy(scope)
    _run(world, more)
    world.put_back(scope, copy)
    _run(world, 2 * more)


def _published_files_gone(world: World) -> None:
    """The copy that is put back is from before the first micro-batch: the folder looks like a new one."""
    copy = world.copy("published files")
    _run(world)
    world.put_back("published files", copy)
    _run(world, 40)


def _restored_and_back(world: World) -> None:
    """Somebody restores silver to an older version and back; only publications read it, what is added."""
    world.without_gold()
    _run(world)
    _run(world)
    latest = world.tables.latest(table(ORDERS)) or 0
    world.restore(ORDERS, 1)
    world.restore(ORDERS, latest)
    _run(world)


def _stopped(world: World, scope: str) -> None:
    """A query is stopped, its table put back, and started again."""
    _run(world)
    copy = world.copy(scope)
    world.start()
    for _ in range(3):
        world.produce(10)
        world.settle()
    world.hold(LATEST)
    world.put_back(scope, copy)
    world.go_on(LATEST)
    world.produce(10)
    world.settle()


def _stopped_by_restore(world: World) -> None:
    """A RESTORE stops the query; it is started again without a look at what happened."""
    world.start()
    for _ in range(4):
        world.produce(10)
        world.settle()
    world.hold(LATEST)
    world.restore(LATEST, 1)
    world.go_on(LATEST)
    for _ in range(4):
        world.produce(10)
        world.settle()


def _copy_runs_beside(world: World) -> None:
    """A copy of the data folder runs the same pipeline, and publishes to the same places."""
    _run(world)
    _run(world)
    original = world.copy("data folder")
    _run(world, 30)
    world.put_back("data folder", original)
    _run(world, 15)


def _checkpoint_put_back(world: World) -> None:
    """The checkpoint of bronze is put back while the job starts: after the checks, before Spark reads it."""
    _run(world)
    copy = world.copy("checkpoint of bronze")
    _run(world)
    _run(world)
    judge = Wiring.judge

    def judged(wiring: Wiring, *layers: Any, **more: Any) -> None:
        judge(wiring, *layers, **more)
        world.put_back("checkpoint of bronze", copy)

    world.produce(20)
    with mock.patch.object(Wiring, "judge", judged):
        world.start()
    world.settle()
    world.stop()


def _side_table_put_back_inside(world: World) -> None:
    """Quarantine is put back inside of a micro-batch that writes it."""
    for _ in range(2):
        _run(world)
    copy = world.copy("quarantine")
    _run(world)
    world.start()
    world.produce(20)
    world.trigger("bronze.orders")
    world.at_write(table(f"{ORDERS}__quarantine"), lambda: world.put_back("quarantine", copy))
    world.settle()
    world.stop()


def _put_back_beside_a_stopped_publication(world: World) -> None:
    """A publication is stopped, its source put back, and it is started again."""
    _run(world)
    copy = world.copy("silver")
    _run(world)
    world.start()
    world.hold("publish.files")
    world.put_back("silver", copy)
    world.go_on("publish.files")
    world.produce(10)
    world.settle()


def _restored_before_a_publication(world: World) -> None:
    """Silver is restored while the job idles; a publication has yet to send what it had."""
    _run(world)
    world.start()
    world.hold("publish.files")
    world.produce(20)
    world.settle()
    world.restore(ORDERS, 1)
    world.go_on("publish.files")
    world.produce(10)
    world.settle()


def _put_back_while_it_runs(world: World, scope: str) -> None:
    """All of it, so that the parts fit each other."""
    _run(world)
    copy = world.copy(scope)
    world.start()
    world.produce(20)
    world.settle()
    world.put_back(scope, copy)
    world.produce(20)
    world.settle()


def _put_back_behind_the_look(world: World) -> None:
    """Silver is put back behind the look that follows its first micro-batch: no look may begin there."""
    world.start()
    copy, end = world.copy("silver"), SourceWatch.end
    world.produce(20)
    world.trigger("bronze.orders")

    def ended(watch: SourceWatch, batch: MicroBatch) -> None:
        end(watch, batch)
        if batch.query == ORDERS and not batch.batch_id:
            world.put_back("silver", copy)

    with mock.patch.object(SourceWatch, "end", ended):
        world.settle()
    for _ in range(3):
        world.produce(10)
        world.settle()


LIVES: Mapping[str, Life] = {
    "broker put back while the job runs": _broker_put_back,
    "a partition put back that the first micro-batch does not write": _partition_put_back,
    "broker put back, and slow": _broker_slow,
    "broker away, and put back": _broker_away,
    "data folder put back": lambda world: _put_back_between_runs(world, "data folder"),
    "checkpoints of publications put back": lambda world: _put_back_between_runs(
        world, "checkpoints of publications"
    ),
    "published files put back": lambda world: _put_back_between_runs(world, "published files"),
    "published files put back to none": _published_files_gone,
    "silver restored and back": _restored_and_back,
    "stopped, put back, started": lambda world: _stopped(world, "gold"),
    "stopped by a RESTORE, started": _stopped_by_restore,
    "gold put back while idle": lambda world: _idle(world, "gold"),
    "silver put back while idle": lambda world: _idle(world, "silver"),
    "broker put back behind an aborted transaction": lambda world: _aborted(world, 40, 0),
    "broker put back before records and an aborted transaction": lambda world: _aborted(world, 40, 5),
    "a copy publishes beside": _copy_runs_beside,
    "gold restored while idle": lambda world: _idle(world, versions={LATEST: 1}),
    "bronze put back while idle": lambda world: _idle(world, "bronze"),
    "checkpoint put back while the job starts": _checkpoint_put_back,
    "silver put back beside a stopped publication": _put_back_beside_a_stopped_publication,
    "silver restored before a publication": _restored_before_a_publication,
    "data folder put back while the job runs": lambda world: _put_back_while_it_runs(world, "data folder"),
    "published files and their checkpoint put back while the job runs": lambda world: _put_back_while_it_runs(
        world, "published files and their checkpoint"
    ),
    "silver put back behind the look after a micro-batch": _put_back_behind_the_look,
    "quarantine put back inside a micro-batch": _side_table_put_back_inside,
}


def end(world: World, *, may_repeat: bool = False) -> str:
    """What a life ends with: ``refused``, ``right``, or what is wrong although nothing was said.

    ``open`` is what is wrong after the job has said that it could not compare something.

    Args:
        world: The world.
        may_repeat: Whether the database may have rows twice: after an older copy was put back, a function is
            called with rows that it may have got before, and other tokens.
    """
    _again(world)
    if world.refusal is not None:
        # What was refused once is refused by the next start too.
        world.refusal = None
        _again(world)
        return _verdict(world, "forgotten: ", may_repeat) if world.refusal is None else "refused"
    return _verdict(world, "", may_repeat)


def _again(world: World) -> None:
    for _ in range(2):
        if world.refusal is None:
            world.start()
            world.settle()
            world.stop()


def _verdict(world: World, before: str, may_repeat: bool) -> str:  # noqa: FBT001
    try:
        wrong = world.wrong(may_repeat=may_repeat)
    except FileNotFoundError:
        return "refused"  # a commit or a file is gone: nobody can read the table
    if wrong and world.is_open:
        return "open"
    return f"{before}{'; '.join(wrong)}" if wrong else "right"
