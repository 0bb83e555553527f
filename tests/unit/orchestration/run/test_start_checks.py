"""Declarations that a start refuses, by what the checkpoint says of the former one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from common.config.paths import Layout
from common.declare import Silver
from common.errors import CheckpointMismatchError
from orchestration.access.declaration.last_declaration import changed_code, remember
from orchestration.run.start_checks import (
    TornCommits,
    check_all,
    dedupe_refusal,
    nothing_changed_if_refused,
)
from tests.conftest import make_settings
from tests.support.oracles.plan_shop import BASE, GOLD, noted_negative, orders


def refusal(tmp_path: Path, before: Silver, now: Silver, *, has_begun: bool = True) -> str:
    """The message of a start by ``now`` after one by ``before``; empty where it goes on."""
    tmp_path.mkdir(exist_ok=True)
    settings = make_settings(tmp_path, "none:1")
    layout = Layout.of(replace(BASE, silver=[now], gold=[], publish=[]), settings)
    checkpoint = Path(layout.checkpoint_path(now.table))
    (checkpoint / "offsets").mkdir(parents=True)
    if has_begun:
        (checkpoint / "offsets" / "0").write_text("v1\n{}\n-")
    remember(str(checkpoint), before, settings)
    found = dedupe_refusal(layout, now)
    return "" if found is None else str(found)


def test_another_kind_of_dedupe_names_the_rebuild(tmp_path: Path) -> None:
    text = refusal(tmp_path, orders(dedupe="exact"), orders())
    assert "dedupe='exact' and is declared with 'within_watermark'" in text
    assert "medallion rebuild silver.orders" in text


def test_dedupe_within_the_watermark_to_exact_names_the_rebuild(tmp_path: Path) -> None:
    assert "medallion rebuild silver.orders" in refusal(tmp_path, orders(), orders(dedupe="exact"))


def test_the_same_state_and_a_query_that_has_not_begun_go_on(tmp_path: Path) -> None:
    assert not refusal(tmp_path / "a", orders(), orders(dedupe="event_time"))
    assert not refusal(tmp_path / "b", orders(dedupe="exact"), orders(), has_begun=False)


def test_code_of_the_users_own_is_compared_with_that_of_the_last_start(tmp_path: Path) -> None:
    settings, noted = make_settings(tmp_path, "none:1"), GOLD["noted"]
    assert changed_code(str(tmp_path), noted) is None
    remember(str(tmp_path), noted, settings)
    assert changed_code(str(tmp_path), noted) is None
    assert changed_code(str(tmp_path), replace(noted, write=noted_negative)) == "write"
    remember(str(tmp_path), GOLD["latest"], settings)
    assert changed_code(str(tmp_path), replace(GOLD["latest"], columns=["id"])) is None


def test_a_refused_start_leaves_the_torn_commits_of_all_tables_as_they_were(tmp_path: Path) -> None:
    layout = Layout.of(BASE, make_settings(tmp_path, "none:1"))
    first, second = BASE.silver
    torn = []
    for table in (first.table, second.table, second.quarantine):
        for number in range(2):
            write_deltalake(layout.table_path(table), pa.table({"n": [number]}), mode="append")
        torn.append(Path(layout.table_path(table), "_delta_log", f"{1:020}.json"))
        torn[-1].write_bytes(torn[-1].read_bytes()[:40])
    before = [file.read_bytes() for file in torn]

    def refused() -> None:
        with nothing_changed_if_refused() as commits:
            for declared in (first, second):
                commits.take_away(layout, declared)
            assert not any(file.exists() for file in torn)
            raise CheckpointMismatchError

    with pytest.raises(CheckpointMismatchError):
        refused()
    assert [file.read_bytes() for file in torn] == before
    with nothing_changed_if_refused() as commits:
        commits.take_away(layout, first)
    assert [file.exists() for file in torn] == [False, True, True]


def test_one_refusal_names_all_that_cannot_go_on_and_one_command(tmp_path: Path) -> None:
    """Twelve readers of one table named twelve commands, one per start."""
    layout = Layout.of(BASE, make_settings(tmp_path, "none:1"))
    tables = BASE.silver
    for declared in tables:
        facts = {"query": declared.table, "query_id": "lost", "batch_id": 0, "step": "accepted"}
        write_deltalake(
            layout.table_path(declared.table),
            pa.table({"n": [1]}),
            commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(facts)}),
        )
    context = SimpleNamespace(layout=layout)
    with pytest.raises(CheckpointMismatchError) as one:
        check_all(context, tables[:1], (), TornCommits())  # type: ignore[arg-type]
    assert "\n" not in str(one.value)
    with pytest.raises(CheckpointMismatchError) as refused:
        check_all(context, tables, (), TornCommits())  # type: ignore[arg-type]
    text = str(refused.value)
    assert text.startswith(f"{len(tables)} queries cannot go on")
    for declared in tables:
        assert f"- {declared.table}: the table at" in text
        assert f"medallion recover {declared.table}" not in text
    assert text.endswith("medallion recover. What it would do: medallion recover --plan")
