"""Few rows both ways in every run: here that takes seconds."""

from __future__ import annotations

import pytest

from common.config.driver_limits import NO_DRIVER, DriverLimits
from tests.conftest import IN_DRIVER


@pytest.fixture(params=["driver", "executors"])
def small(request: pytest.FixtureRequest) -> DriverLimits:
    """Few rows are worked out in the driver, or like many by the executors: with the same result."""
    return IN_DRIVER if request.param == "driver" else NO_DRIVER
