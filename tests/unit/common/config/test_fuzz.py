"""Random settings files: each is read or refused in words, whatever is in it."""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.config.settings import Settings, load_settings, setting_names
from common.errors import SettingsError

NAMES = tuple(setting_names())
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 750, 0o750, 1e308, float("nan"), float("inf"), 10**30, "", " ", "asap",
    "follow", "5 seconds", "-1 day", "1 year", "env:X", "file:/x", "\x85", "é\u202e", "a" * 5000, [], [[]],
    [None, 1], {}, {"a": {"b": 1}}, {"a": None}, {1: 2}, "{", "%", "0700", "2026-03-01", "@", "http://a:b@c",
)  # fmt: skip


def tree(chance: random.Random) -> Any:
    """Sections and keys, most of them real, with values of any kind."""
    found: dict[Any, Any] = {}
    for name in chance.sample(NAMES, chance.randint(0, 6)):
        *parents, leaf = name.split(".")
        if chance.random() < 0.1:
            leaf += chance.choice(string.printable)
        place = found
        for parent in parents:
            inner = place.setdefault(parent, {})
            if not isinstance(inner, dict):
                break
            place = inner
        place[chance.choice([leaf, leaf, leaf, 1, None, ""])] = chance.choice(VALUES)
    return chance.choice([found, found, found, found, [found], chance.choice(VALUES)])


def text(chance: random.Random) -> bytes:
    """A file: YAML of a tree, a few bytes of it changed, or random bytes."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randint(0, 60))
    content = bytearray(yaml.safe_dump(tree(chance), allow_unicode=chance.random() < 0.5).encode())
    for _ in range(chance.choice([0, 0, 1, 2, 8])):
        if content:
            content[chance.randrange(len(content))] = chance.choice([*b"{}[]:,&*!|>'\"%@`#-? \t\n", 0, 255])
    return bytes(content)


@pytest.mark.parametrize(("first", "number"), [(0, 300), pytest.param(300, 10_000, marks=pytest.mark.long)])
def test_a_random_file_is_read_or_refused_in_words(tmp_path: Path, first: int, number: int) -> None:
    file = tmp_path / "medallion.yaml"
    refused = 0
    for seed in range(first, first + number):
        content = text(random.Random(seed))  # noqa: S311  # a failure is repeated by its seed
        file.write_bytes(content)
        try:
            assert isinstance(load_settings(file=file), Settings)
        except SettingsError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {content!r}") from error
    assert number / 3 < refused < number
