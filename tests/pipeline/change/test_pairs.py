"""One operation on stored rows, and another one after it: right, or named by the audit.

``tests/pipeline/records/test_erased_again.py`` has the pairs of an erasure without gold, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.pairs.operations import Life, chosen_pairs, fill, run_pairs


@pytest.fixture(scope="module")
def filled(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """The shop with all kinds of gold, of which the pairs have copies."""
    return fill(spark, tmp_path_factory.mktemp("pairs"))


@pytest.mark.long
@pytest.mark.parametrize("first", chosen_pairs(), ids=lambda one: one.__name__)
def test_no_pair_ends_wrong(filled: Life, tmp_path: Path, first: Callable[[Life], None]) -> None:
    """``PAIRS=all``: each operation after each one; unset: some, which take minutes."""
    run_pairs(filled, tmp_path, first, chosen_pairs()[first])
