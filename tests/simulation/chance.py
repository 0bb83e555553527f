"""Lives drawn by a seed: records, micro-batches, stops, kills, and at times an older copy of something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation import lives
from tests.simulation.world import QUERIES, RESTORED, SCOPES, World, table

_EVENTS = 45
_WITH_BRONZE = {"bronze", "bronze and its checkpoint", "tables", "data folder"}
Copy = dict[str, tuple[bytes, int]]


@dataclass
class Chance:
    """Draws one life.

    Attributes:
        world: Where it is lived.
        faults: How many older copies are put back, or tables restored; one without any must end right.
    """

    world: World
    faults: int = 0
    _copies: dict[str, Copy] = field(default_factory=dict)
    _brokers: list[object] = field(default_factory=list)
    _is_broker_older: bool = False
    _is_bronze_older: bool = False

    def live(self) -> None:
        """Live until something is refused, or a number of events have come."""
        world, draw = self.world, self.world.random
        self.faults = draw.choice((0, 1, 1, 1, 2))
        happens: list[tuple[int, Callable[[], object]]] = [
            (20, lambda: world.produce(draw.randint(1, 9))),
            (45, world.trigger),
            (10, world.look),
            (12, world.start),
            (4, world.stop),
            (2, world.kill),
            (4, lambda: world.later(400, world.die)),
            (2, lambda: world.later(400, world.freeze)),
            (1, lambda: world.at_write(table(draw.choice(RESTORED)), world.freeze)),
            (2, world.fill),
            (2, lambda: world.abort(draw.choice((1, 5, 40)), draw.randrange(2))),
            (3, lambda: world.hold(draw.choice(QUERIES))),
            (6, lambda: world.go_on(draw.choice(QUERIES))),
            (3, lambda: world.tables.optimize(table(draw.choice(RESTORED)))),
            (6, self._copy),
            (3, lambda: self._brokers.append(world.broker.copy())),
            (2, lambda: setattr(world.broker, "is_away", True)),
            (4, lambda: setattr(world.broker, "is_away", False)),
            (1, lambda: setattr(world.broker, "is_slow", True)),
            (4, lambda: setattr(world.broker, "is_slow", False)),
            (6, self._fault),
        ]
        weights, events = [weight for weight, _ in happens], [event for _, event in happens]
        for _ in range(_EVENTS):
            draw.choices(events, weights)[0]()
            if world.refusal is not None:
                break

    def end(self) -> str:
        """What the life ends with, as ``lives.end``, once everything answers again; more records come."""
        world = self.world
        world.broker.is_away = world.broker.is_slow = False
        world.nothing_later()
        if world.refusal is None:
            world.settle()
        for name in QUERIES:
            if world.refusal is None:
                world.go_on(name)
        if world.refusal is None:
            world.produce(12)
            world.settle()
        if world.refusal is None:
            world.stop()
        for name in QUERIES:
            world.go_on(name)
        verdict = lives.end(world, may_repeat=bool(self.faults_done))
        if verdict == "refused" and not self.faults_done:
            return f"refused without a fault: {world.events[-1]}"
        return verdict

    faults_done: int = 0

    def _copy(self) -> None:
        scope = self.world.random.choice(list(SCOPES))
        self._copies[scope] = self.world.copy(scope)

    def _fault(self) -> None:
        """Put something back now, or inside of the next micro-batch."""
        draw = self.world.random
        if self.faults_done >= self.faults:
            return
        choices: list[Callable[[], None]] = []
        # A record that both the broker and bronze have lost is nowhere, and nobody could know of it.
        copies = [one for one in self._copies if not (self._is_broker_older and one in _WITH_BRONZE)]
        if copies:
            scope = draw.choice(copies)
            self._is_bronze_older |= scope in _WITH_BRONZE
            choices.append(lambda: self.world.put_back(scope, self._copies[scope]))
        name = draw.choice(RESTORED)
        latest = self.world.tables.latest(table(name)) if self.world.disk.names(table(name)) else None
        if latest:
            version = draw.randrange(latest)
            choices.append(lambda: self._restore(name, version))
        if self._brokers and not self.world.broker.is_away and not self._is_bronze_older:
            former = draw.choice(self._brokers)
            choices.append(lambda: self._broker(former))
        if not choices:
            return
        self.faults_done += 1
        fault = draw.choice(choices)
        if draw.random() < 0.4:
            self.world.later(300, fault)
        else:
            fault()

    def _restore(self, name: str, version: int) -> None:
        if (self.world.tables.latest(table(name)) or 0) > version:
            self.world.restore(name, version)

    def _broker(self, former: object) -> None:
        self._is_broker_older = True
        self.world.events.append("an older copy of the broker")
        partitions = self.world.random.choice(((0, 1), (0, 1), (0,), (1,)))
        self.world.broker.put_back(former, partitions)  # type: ignore[arg-type]


def one_life(seed: int) -> tuple[str, World]:
    """Live one life; what it ends with, and its world."""
    world = World(seed)
    with world.entered():
        chance = Chance(world)
        chance.live()
        return chance.end(), world
