"""What a command says while it waits."""

from __future__ import annotations

import time

import pytest

from common.machine import console


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
    assert 1 <= len(said) <= 2
    assert set(said) == {"waiting for Spark, 0 s so far"}
