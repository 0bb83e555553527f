"""Sample data in the shape of the USGS earthquake feed, with the troubles of the real one.

``quakes(seed)`` is offline, endless and byte for byte the same for the same seed: it has its own random
numbers and its own clock, and reads neither the machine's clock nor the network. Its clock starts at
``START_MS`` and goes on by ``STEP_MS`` with each message, so a billion messages end in September 2022.

Everything that does not change from message to message is rendered once, when the feed is built: a
message costs a few random numbers and one f-string, a few microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from epicentres import Spot, spots

from medallion import Message

START_MS = 1_262_304_000_000
"""The simulated clock's start, 2010-01-01 in UTC, in milliseconds since the epoch."""

STEP_MS = 400
"""Simulated milliseconds from one message to the next."""

DAY_MS = 86_400_000

# What a message is: shares of all messages; what is left, 36 %, repeats a version as it was published.
NEW = 0.45  # the first version of another quake
REVISED = 0.16  # a newer version of a quake: another magnitude, sometimes another time
STALE = 0.012  # a version that is older than one published before
RETRACTED = 0.008  # a newer version that says the quake never was
GARBAGE = 0.01  # no version at all, but a damaged message
CHANGED = REVISED + STALE + RETRACTED + GARBAGE

LATE = 0.02  # of the first versions: published one to six days after the quake
RETIMED = 0.3  # of the revisions: the time moves, by up to five seconds
RESTAMPED = 0.01  # of the revisions: the content changes, ``updated`` does not

WINDOW = 4096  # quakes that may be published again; older ones are done with
SPOTS = 4096  # epicentres
NOTHING = Message(None, None)

# Gutenberg and Richter: ten times fewer quakes for each whole magnitude. Hundredths above completeness.
EXCEEDANCE = tuple(round(-100 * math.log10(1 - (rank + 0.5) / 4096)) for rank in range(4096))
SMALLEST, LARGEST = -200, 900  # hundredths
SHAKING, DAMAGING = 450, 650  # hundredths from which the feed estimates effects, and expects damage


class Size(NamedTuple):
    """The fields that follow from a magnitude, as JSON text."""

    magnitude: str
    title: str
    effects: str
    significance: str


def _size(hundredths: int) -> Size:
    magnitude = hundredths / 100
    felt = max(0, hundredths - 250) ** 2 // 400
    shaking = f"{magnitude - 0.7:.1f}"
    alert = '"green"' if hundredths < DAMAGING else '"yellow"'
    effects = f'"felt":{felt},"cdi":{shaking},"mmi":null,"alert":null'
    if hundredths >= SHAKING:
        effects = f'"felt":{felt},"cdi":{shaking},"mmi":{shaking},"alert":{alert}'
    if not felt:
        effects = '"felt":null,"cdi":null,"mmi":null,"alert":null'
    significance = f'"tsunami":{int(hundredths >= DAMAGING)},"sig":{max(0, hundredths) ** 2 // 650}'
    return Size(f"{magnitude:.4g}", f"{magnitude:.1f}", effects, significance)


SIZES = {hundredths: _size(hundredths) for hundredths in range(SMALLEST, LARGEST + 1)}


@dataclass(slots=True)
class Quake:
    """One quake and its newest version; ``message`` is that version as it was published."""

    code: str
    key: bytes
    spot: Spot
    hundredths: int
    origin_ms: int
    time_ms: int
    updated_ms: int
    status: str = "automatic"
    message: Message = NOTHING


def _value(quake: Quake, time: object, updated_ms: int, size: Size) -> bytes:
    spot, code = quake.spot, quake.code
    network, place = spot.network, spot.place
    return (
        f'{{"type":"Feature","properties":{{"mag":{size.magnitude},"place":"{place}","time":{time},'
        f'"updated":{updated_ms},"tz":null,'
        f'"url":"https://earthquake.usgs.gov/earthquakes/eventpage/{network}{code}",'
        f'"detail":"https://earthquake.usgs.gov/earthquakes/feed/v1.0/detail/{network}{code}.geojson",'
        f'{size.effects},"status":"{quake.status}",{size.significance},"net":"{network}","code":"{code}",'
        f'"ids":",{network}{code},","sources":",{network},","types":",nearby-cities,origin,phase-data,",'
        f'{spot.measured},"title":"M {size.title} - {place}"}},'
        f'"geometry":{{"type":"Point","coordinates":[{spot.coordinates}]}},"id":"{network}{code}"}}'
    ).encode()


class Feed:
    """The state behind the stream: a clock is handed in, a message comes out."""

    def __init__(self, seed: int) -> None:
        # Only random() is used: of all of Random, it alone is promised to be the same in every Python.
        self._random = Random(seed).random
        self._spots = spots(self._random, SPOTS)
        self._number = int(self._random() * 10_000_000)
        self._recent: list[Quake] = []
        self._born = 0

    def publish(self, now_ms: int) -> Message:
        """The next message; ``now_ms`` must be at least ``STEP_MS`` after the one before."""
        draw = self._random()
        if draw < NEW or not self._recent:
            return self._new(now_ms)
        quake = self._recent[int(self._random() * len(self._recent))]
        draw -= NEW
        if draw >= CHANGED or quake.status == "deleted":
            return quake.message
        if draw < REVISED:
            return self._revised(quake, now_ms)
        draw -= REVISED
        if draw < STALE:
            return self._stale(quake)
        if draw < STALE + RETRACTED:
            return self._retracted(quake, now_ms)
        return self._garbage(quake)

    def _new(self, now_ms: int) -> Message:
        random = self._random
        spot = self._spots[int(random() * SPOTS)]
        hundredths = spot.complete_from + EXCEEDANCE[int(random() * 4096)] - int(random() * 60)
        delay_ms = 60_000 + int(random() * 840_000)
        if random() < LATE:
            delay_ms = DAY_MS + int(random() * 5 * DAY_MS)
        updated_ms = now_ms - int(random() * STEP_MS)
        time_ms = updated_ms - delay_ms
        self._number += 1
        code = f"{spot.prefix}{self._number:07d}"
        key = f"{spot.network}{code}".encode()
        quake = Quake(code, key, spot, hundredths, time_ms, time_ms, updated_ms)
        self._keep(quake)
        return self._published(quake)

    def _keep(self, quake: Quake) -> None:
        if len(self._recent) < WINDOW:
            self._recent.append(quake)
        else:
            self._recent[self._born % WINDOW] = quake
        self._born += 1

    def _published(self, quake: Quake) -> Message:
        value = _value(quake, quake.time_ms, quake.updated_ms, SIZES[quake.hundredths])
        quake.message = Message(quake.key, value)
        return quake.message

    def _revised(self, quake: Quake, now_ms: int) -> Message:
        random = self._random
        quake.hundredths = self._other(quake.hundredths)
        if random() < RETIMED:
            quake.time_ms = quake.origin_ms - 5_000 + int(random() * 10_000)
        if random() >= RESTAMPED:
            quake.updated_ms = now_ms - int(random() * STEP_MS)
            quake.status = "reviewed"
        return self._published(quake)

    def _other(self, hundredths: int) -> int:
        change = 1 + int(self._random() * 30)
        if int(self._random() * 2):
            change = -change
        other = hundredths + change
        return other if SMALLEST <= other <= LARGEST else hundredths - change

    def _stale(self, quake: Quake) -> Message:
        # At least a minute lies between a quake and its first version: 50 seconds back is still after it.
        updated_ms = quake.updated_ms - 1_000 - int(self._random() * 49_000)
        size = SIZES[self._other(quake.hundredths)]
        return Message(quake.key, _value(quake, quake.time_ms, updated_ms, size))

    def _retracted(self, quake: Quake, now_ms: int) -> Message:
        quake.status = "deleted"
        quake.updated_ms = now_ms - int(self._random() * STEP_MS)
        return self._published(quake)

    def _garbage(self, quake: Quake) -> Message:
        value = quake.message.value or b""
        draw = self._random()
        match int(self._random() * 5):
            case 0:  # cut off
                return Message(quake.key, value[: 1 + int(draw * (len(value) - 2))])
            case 1:  # of the wrong types
                size = SIZES[quake.hundredths]._replace(magnitude='"strong"')
                return Message(quake.key, _value(quake, '"yesterday"', quake.updated_ms, size))
            case 2:  # Latin-1 where UTF-8 is promised
                return Message(quake.key, value.replace(b'"place":"', b'"place":"\xb1'))
            case 3:
                return Message(quake.key, b"")
            case _:
                return Message(quake.key, None)


def quakes(seed: int) -> Iterator[Message]:
    """Messages without end: key is the quake's id, value a GeoJSON feature.

    The same seed gives the same bytes, whatever the machine, the rate, or the time. No quake and no
    ``updated`` lies after the simulated clock, which never gets ahead of the real one.
    """
    feed = Feed(seed)
    now_ms = START_MS
    while True:
        now_ms += STEP_MS
        yield feed.publish(now_ms)
