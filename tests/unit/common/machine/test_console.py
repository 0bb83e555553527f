"""What a command says while it waits."""

from __future__ import annotations

import re
import time

import pytest

from common.machine import console
from common.machine.terminal import count_of


def test_what_is_awaited_is_said_until_it_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_REPORT_SECONDS", 0.2)
    with console.awaited("nothing"):
        pass
    with pytest.raises(KeyboardInterrupt), console.awaited("Spark"):  # noqa: PT012
        time.sleep(0.5)
        raise KeyboardInterrupt
    time.sleep(0.3)
    said = capsys.readouterr().err.splitlines()
    assert said
    assert all(re.fullmatch(r"waiting for Spark, \d+ s so far", line) for line in said)


@pytest.mark.parametrize(
    ("count", "unit", "expected"),
    [
        (0, "rows", "0 rows"),
        (1, "quarantined rows", "1 quarantined row"),
        (1, "keys or groups", "1 key or group"),
        (2_000, "keys or groups", "2,000 keys or groups"),
    ],
)
def test_one_of_a_unit_stands_in_the_singular(count: int, unit: str, expected: str) -> None:
    assert count_of(count, unit) == expected
