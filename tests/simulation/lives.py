"""Lives that are told step by step: each is a state in which an older product lost or doubled rows unseen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.simulation.world import LATEST, ORDERS, World

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


def _restored_and_back(world: World) -> None:
    """Somebody restores silver to an older version and back: publications read what is added."""
    _run(world)
    _run(world)
    latest = world.tables.latest(_path(ORDERS)) or 0
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


def _restored_while_held(world: World) -> None:
    """A RESTORE that the newest two micro-batches no longer show."""
    _idle(world, versions={LATEST: 1})


def _path(name: str) -> str:
    from tests.simulation.world import table

    return table(name)


LIVES: Mapping[str, Life] = {
    "W1 broker put back while the job runs": _broker_put_back,
    "W1 broker away, and put back": _broker_away,
    "W2 data folder put back": lambda world: _put_back_between_runs(world, "data folder"),
    "W3 checkpoints of publications put back": lambda world: _put_back_between_runs(
        world, "checkpoints of publications"
    ),
    "W4 published files put back": lambda world: _put_back_between_runs(world, "published files"),
    "W5 silver restored and back": _restored_and_back,
    "W6 stopped, put back, started": lambda world: _stopped(world, "gold"),
    "W7 stopped by a RESTORE, started": _stopped_by_restore,
    "W8 gold put back while idle": lambda world: _idle(world, "gold"),
    "W9 silver put back while idle": lambda world: _idle(world, "silver"),
    "W10 broker put back behind an aborted transaction": lambda world: _aborted(world, 40, 0),
    "W10 broker put back before records and an aborted transaction": lambda world: _aborted(world, 40, 5),
    "W11 a copy publishes beside": _copy_runs_beside,
    "W12 gold restored while idle": _restored_while_held,
    "W13 bronze put back while idle": lambda world: _idle(world, "bronze"),
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
