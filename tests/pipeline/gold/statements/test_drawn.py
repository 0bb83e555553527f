"""Drawn statements, kept as views over drawn lives of their tables: Spark's rows of the text after every version.

``DRAWN_STATEMENTS=500`` draws so many, ``DRAWN_SEED=7`` others; a statement that fails is made smaller before it
is shown with its seed. What one has found stays as a case in ``cases.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.runs.shards import PARTS, SHARDS, in_turn
from tests.support.drawn.compared import Drawn, try_statements
from tests.support.drawn.examples import constants

STATEMENTS = int(os.environ.get("DRAWN_STATEMENTS", "20160"))
STORED = int(os.environ.get("DRAWN_STORED", "288"))
SEED = int(os.environ.get("DRAWN_SEED", "1"))
ALL_PARTS = SHARDS * PARTS
"""Of those of its shard a run of CI has one: the others when the shard has its next turns."""
TRIES = 40
ENOUGH = 20
"""Statements of which a share can be told: a part of the stored ones has two, and both may be refused."""

Constants = Mapping[str, Sequence[str]]


@pytest.fixture(scope="module", name="documented")
def _documented(spark: Any) -> Constants:
    return constants(spark)


def check(drawn: Drawn, count: int) -> None:
    """No statement fails, and few that Spark runs are refused."""
    print(f"\n{drawn.counts}")  # noqa: T201  # what was tried is part of the result
    assert not drawn.faults, drawn.told()
    assert len(drawn.refused) <= count // 50, drawn.refused
    if count >= ENOUGH:
        assert drawn.counts["kept"] > count * 0.6


def test_a_drawn_statement_gives_the_rows_of_its_text(plain: Any) -> None:
    """Their first loads, and of some the next micro-batch."""
    check(try_statements(plain, [f"load {number}" for number in range(30)], {}, 0, tries=0), 30)
    check(try_statements(plain, [f"life {number}" for number in range(4)], {}, 1, tries=0), 4)


@pytest.mark.long
@pytest.mark.parametrize("part", in_turn(range(ALL_PARTS), PARTS))
def test_a_drawn_statement_gives_them_after_every_version(
    plain: Any, documented: Constants, part: int
) -> None:
    count = -(-STATEMENTS // ALL_PARTS)
    seeds = [f"{SEED} {part} {number}" for number in range(count)]
    check(try_statements(plain, seeds, documented, 2, tries=TRIES), count)


@pytest.mark.long
@pytest.mark.parametrize("part", in_turn(range(ALL_PARTS), PARTS))
def test_a_drawn_statement_gives_them_in_delta_tables(
    spark: Any, documented: Constants, tmp_path: Path, part: int
) -> None:
    count = -(-STORED // ALL_PARTS)
    seeds = [f"stored {SEED} {part} {number}" for number in range(count)]
    check(try_statements(spark, seeds, documented, 2, tries=TRIES // 4, folder=tmp_path), count)
