"""Which views may have other rows when their statement is computed again over the same rows."""

from __future__ import annotations

import pytest

from common.declare import View
from gold.view.open_rows import leaves_open

OF_ORDER = (
    "select id from silver.a limit 3",
    "select id from silver.a\nLIMIT 3",
    "select id from (select id from silver.a order by id limit 3) t",
    "select k, first(v) as f from silver.a group by k",
    "select k, First (v) as f from silver.a group by k",
    "select k, collect_list(v) as l from silver.a group by k",
    "select id, row_number() over (partition by k order by v) as n from silver.a",
)

OF_ROWS = (
    "select customer, credit_limit from silver.a",
    "select 1 as x from silver.a having max(credit_limit) > 3",
    "select customer as `limit` from silver.a",
    "select id from silver.a where name = 'limit 3'",
    "select id from silver.a -- limit 3",
    "select id from silver.a /* first(v) */",
    "select id, 'first(v)' as x from silver.a",
    "select k, count(*) as first from silver.a group by k",
)


@pytest.mark.parametrize("sql", OF_ORDER)
def test_a_choice_among_rows_depends_on_their_order(sql: str) -> None:
    assert leaves_open(View("v", sql=sql))


@pytest.mark.parametrize("sql", OF_ROWS)
def test_a_word_in_a_name_a_text_or_a_comment_is_no_choice(sql: str) -> None:
    assert not leaves_open(View("v", sql=sql))
