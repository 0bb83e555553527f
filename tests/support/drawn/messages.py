"""Legal messages of any spelling, drawn by a seed: for what reads JSON a second time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

FIELDS = (
    "id string, name string, n int, big bigint, is_on boolean, f double, price decimal(9,2), "
    "amount decimal(20,2), sum decimal(38,10), at timestamp, day date"
)
KEY = ("id",)


def _text(draw: Random) -> str:
    shown = (
        "a",
        "Ä",
        "\\u00e9",
        "\\ud83d\\ude00",
        "😀",
        " ",
        "\\n",
        "\\t",
        '\\"',
        "\\/",
        "'",
        "{",
        "\\\\",
        "0",
        ".",
    )
    return f'"{"".join(draw.choice(shown) for _ in range(draw.randrange(6)))}"'


def _any(draw: Random) -> str:
    """A value of a text field: the reader keeps what is no text as it stands."""
    other = (
        "1.10",
        "1e3",
        "-0",
        "0",
        "-0.0",
        "12",
        "1E-7",
        "12345678901234567890123",
        "true",
        "false",
        "[1, 2]",
        "[ ]",
    )
    return draw.choice(
        (_text(draw), draw.choice((*other, '{"b": 1.0}', '{ "x" : [ null ] }', "null", '"null"')))
    )


def _whole(digits: int) -> Callable[[Random], str]:
    def one(draw: Random) -> str:
        return draw.choice(("", "-")) + str(draw.randrange(10 ** draw.randrange(1, digits)))

    return one


def _double(draw: Random) -> str:
    plain = repr(draw.uniform(-1e6, 1e6))
    return draw.choice(
        (plain, repr(draw.random() * 10 ** draw.randrange(-300, 300)), "1e308", "0.50", "1E+2", "-0", "7")
    )


def _decimal(digits: int, places: int) -> Callable[[Random], str]:
    def one(draw: Random) -> str:
        whole = str(draw.randrange(10 ** draw.randrange(1, digits - places)))
        behind = "".join(draw.choice("0123456789") for _ in range(draw.randrange(places + 1)))
        sign, zeros = draw.choice(("", "-")), draw.choice(("", "", "00"))
        return sign + whole + (f".{behind}{zeros}" if behind else draw.choice(("", ".0", "e0")))

    return one


def _time(draw: Random) -> str:
    day = f"{draw.randrange(1970, 2100):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
    clock = f"{draw.randrange(24):02}:{draw.randrange(60):02}"
    seconds = draw.choice(
        ("", f":{draw.randrange(60):02}", f":{draw.randrange(60):02}.{draw.randrange(10**6):06}")
    )
    zone = draw.choice(("Z", "+02:00", "-05:30", "+00:00"))
    return f'"{day}{draw.choice("T ")}{clock}{seconds}{zone}"'


def _day(draw: Random) -> str:
    return f'"{draw.randrange(1600, 2400):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"'


_DRAWN: dict[str, Callable[[Random], str]] = {
    "name": _any,
    "n": _whole(9),
    "big": _whole(18),
    "is_on": lambda draw: draw.choice(("true", "false")),
    "f": _double,
    "price": _decimal(9, 2),
    "amount": _decimal(20, 2),
    "sum": _decimal(38, 10),
    "at": _time,
    "day": _day,
}


def draw_message(draw: Random, number: int) -> bytes:
    """A document of ``FIELDS``: some are null or absent, in any order, with any white space."""
    identity = draw.choice((f'"k{number}"', f'"k{draw.randrange(number + 1)}"', str(number), f"{number}.50"))
    fields = [("id", identity), *((name, one(draw)) for name, one in _DRAWN.items())]
    fields = [
        (name, "null" if draw.random() < 0.05 else text) for name, text in fields if draw.random() > 0.05
    ]
    draw.shuffle(fields)
    blank = draw.choice(("", " ", "\n  "))
    return (
        "{" + f",{blank}".join(f'{blank}"{name}"{blank}:{blank}{text}' for name, text in fields) + "}"
    ).encode()
