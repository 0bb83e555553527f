"""The option ``--stop-after``: a machine that is slow must not lose the report of what it has run."""

from __future__ import annotations

import time

import pytest

from tests.support.run_cost import NOT_RUN

_BEGAN = time.monotonic()


def add_stop_after(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--stop-after", metavar="SECONDS", help="the tests that have not begun by then fail")


def fail_without_time(item: pytest.Item) -> None:
    """Fail a test that begins after the seconds of the option."""
    limit = item.config.getoption("--stop-after")
    if limit is not None and time.monotonic() - _BEGAN > float(limit):
        pytest.fail(f"{NOT_RUN}: the {float(limit):.0f} s of --stop-after are over", pytrace=False)
