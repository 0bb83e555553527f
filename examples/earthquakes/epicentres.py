"""Where the sample quakes happen: networks, the towns that places are named after, and epicentres.

An epicentre is rendered once, as the JSON text that all quakes there share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

KM_PER_DEGREE = 111
BLAST = 0.01  # share of the epicentres that are quarries


class Town(NamedTuple):
    """A town that places are named after, and what quakes near it are like."""

    network: str
    share: int
    name: str
    latitude: float
    longitude: float
    deepest_km: int


TOWNS = (
    Town("ak", 90, "Anchor Point, Alaska", 59.78, -151.83, 120),
    Town("ak", 70, "Willow, Alaska", 61.75, -150.04, 90),
    Town("ak", 50, "Sand Point, Alaska", 55.34, -160.50, 60),
    Town("ak", 40, "Adak, Alaska", 51.88, -176.65, 70),
    Town("nc", 120, "The Geysers, CA", 38.78, -122.76, 5),
    Town("nc", 60, "Mammoth Lakes, CA", 37.65, -118.97, 12),
    Town("nc", 40, "Petrolia, CA", 40.33, -124.28, 25),
    Town("nc", 30, "San Ramon, CA", 37.78, -121.98, 14),
    Town("ci", 80, "Johannesburg, CA", 35.37, -117.64, 11),
    Town("ci", 50, "Anza, CA", 33.56, -116.67, 17),
    Town("ci", 40, "Salton City, CA", 33.30, -115.96, 12),
    Town("av", 100, "Karluk, Alaska", 57.57, -154.46, 9),
    Town("us", 20, "Hihifo, Tonga", -15.95, -173.77, 300),
    Town("us", 15, "Ollagüe, Chile", -21.22, -68.25, 180),
    Town("us", 15, "Petropavlovsk-Kamchatsky, Russia", 53.04, 158.65, 90),
    Town("us", 15, "Ishikawa, Japan", 26.42, 127.83, 60),
    Town("us", 15, "Sandnessjøen, Norway", 66.02, 12.63, 15),
    Town("tx", 60, "Mentone, Texas", 31.70, -103.60, 9),
    Town("uw", 30, "Ashford, Washington", 46.76, -122.03, 20),
    Town("nn", 30, "Beatty, Nevada", 36.91, -116.76, 12),
    Town("uu", 25, "Magna, Utah", 40.71, -112.10, 10),
    Town("mb", 22, "Lincoln, Montana", 46.95, -112.68, 14),
    Town("hv", 20, "Pāhala, Hawaii", 19.20, -155.48, 40),
    Town("pr", 25, "Guánica, Puerto Rico", 17.97, -66.91, 20),
)


class Network(NamedTuple):
    """How a network numbers its quakes, and the magnitude (in hundredths) from which it sees them all."""

    prefix: str
    complete_from: int
    scale: str


NETWORKS = {
    "ak": Network("010", 100, "ml"),
    "av": Network("9", -80, "ml"),
    "ci": Network("4", 50, "ml"),
    "hv": Network("7", 160, "md"),
    "mb": Network("9", 70, "ml"),
    "nc": Network("7", 60, "md"),
    "nn": Network("0", 20, "ml"),
    "pr": Network("7", 180, "md"),
    "tx": Network("20", 120, "ml(texnet)"),
    "us": Network("6000", 400, "mb"),
    "uu": Network("8", 50, "ml"),
    "uw": Network("6", 30, "ml"),
}

DIRECTIONS = (
    "N",
    "NNE",
    "NE",
    "ENE",
    "E",
    "ESE",
    "SE",
    "SSE",
    "S",
    "SSW",
    "SW",
    "WSW",
    "W",
    "WNW",
    "NW",
    "NNW",
)


class Spot(NamedTuple):
    """An epicentre: the fields that quakes there share, as JSON text."""

    network: str
    prefix: str
    complete_from: int
    place: str
    measured: str
    coordinates: str


def _spot(random: Callable[[], float], town: Town) -> Spot:
    network = NETWORKS[town.network]
    distance_km = 1 + int(random() * random() * 80)
    angle = int(random() * 16)
    north_km = distance_km * math.cos(angle * math.pi / 8)
    east_km = distance_km * math.sin(angle * math.pi / 8)
    latitude = town.latitude + north_km / KM_PER_DEGREE + random() / 50
    longitude = town.longitude + east_km / KM_PER_DEGREE / math.cos(math.radians(latitude)) + random() / 50
    depth = -1 + random() * random() * (town.deepest_km + 1)
    measured = (
        f'"nst":{4 + int(random() * 60)},"dmin":{random():.5f},"rms":{0.01 + random() / 2:.2f},'
        f'"gap":{20 + int(random() * 220)},"magType":"{network.scale}",'
        f'"type":"{"quarry blast" if random() < BLAST else "earthquake"}"'
    )
    return Spot(
        town.network,
        network.prefix,
        network.complete_from,
        f"{distance_km} km {DIRECTIONS[angle]} of {town.name}",
        measured,
        f"{longitude:.4f},{latitude:.4f},{depth:.2f}",
    )


def spots(random: Callable[[], float], count: int) -> tuple[Spot, ...]:
    """Epicentres, each near a town drawn by its share; ``random`` is uniform in [0, 1)."""
    draw = tuple(town for town in TOWNS for _ in range(town.share))
    return tuple(_spot(random, draw[int(random() * len(draw))]) for _ in range(count))
