"""By which SQL texts Delta skips files."""

from __future__ import annotations

import pytest

from gold.table.pruning import prunes_files


@pytest.mark.parametrize(
    "sql",
    ["n", "`k`", "(n)", "s.deep.n", "`s`.`deep`.n", "cast(n as bigint)", "CAST( `s`.`n` AS Long )"],
)
def test_columns_fields_and_their_casts_to_bigint_skip_files(sql: str) -> None:
    assert prunes_files(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "abs(n)",
        "n + 1",
        "a[0]",
        "a[0].n",
        "current_date",
        "cast(n as string)",
        "cast(n + 1 as bigint)",
        "cast(a as bigint) + cast(b as bigint)",
        "window(at, '10 seconds').start",
    ],
)
def test_other_expressions_skip_none(sql: str) -> None:
    assert not prunes_files(sql)
