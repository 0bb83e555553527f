"""A silver table filled again from bronze beside the live one: switched in one commit, and taken back."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from common.declare import Pipeline, Upsert, View
from common.delta import table as delta_table
from common.delta.lease.local_leases import Leases
from common.delta.log import LogReader
from common.errors import CheckpointMismatchError, LeaseHeldError, MedallionError, UsageError
from orchestration.change.rebuild import rebuild_silver as shadow
from orchestration.change.rebuild import switch
from orchestration.records.rejudge import followers
from orchestration.records.rejudge.refill_gold import refill
from tests.support.engine import Engine
from tests.support.oracles.plan_shop import COLUMNS, orders, record
from tests.support.stored_shop import GOLD, LARGE, READS, SILVER, changed, ran, settings_of, shop

pytestmark = pytest.mark.long

BASE, CHANGED = shop(orders()), shop(orders(**LARGE))
LAST = [record(10, "z", days=0.03, amount=9), record(11, "d", amount=8), record(12, "y", amount=1)]


def rows(engine: Engine, *tables: str) -> dict[str, Counter[str]]:
    """The rows of tables."""
    return {table: Counter(map(repr, engine.rows(table))) for table in tables}


def rebuild(engine: Engine, work: Callable[..., shadow.Rebuilt] = shadow.rebuild_silver) -> shadow.Rebuilt:
    """Rebuild the silver table of the engine, or take that back."""
    spark, pipeline = engine.spark, engine.pipeline
    return work(spark, pipeline, engine.settings, engine.layout, pipeline.silver[0], lambda text: None)


@pytest.fixture(scope="module")
def before(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a shop after two micro-batches."""
    folder = tmp_path_factory.mktemp("rebuild")
    ran(spark, folder, BASE)
    return folder


@pytest.fixture
def engine(spark: Any, before: Path, tmp_path: Path) -> Engine:
    """A shop of its own for each test, with the changed declaration."""
    shutil.copytree(before / "data", tmp_path / "data")
    return Engine(spark, CHANGED, settings_of(tmp_path))


@pytest.fixture(scope="module")
def new(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A shop that never had another declaration."""
    return ran(spark, tmp_path_factory.mktemp("new"), CHANGED, LAST)


def assert_new(engine: Engine, new: Engine) -> None:
    """After the last records all tables are those of a shop that never had another declaration."""
    engine.append_bronze("bronze.orders", LAST)
    engine.run("silver", "gold")
    assert values(engine) == values(new)
    assert engine.faults() == ()


def values(engine: Engine) -> dict[str, Counter[str]]:
    """The rows of all tables."""
    return rows(engine, *SILVER, *GOLD)


def test_a_rebuild_puts_the_new_rows_in_place_by_one_commit_and_undo_brings_the_former_back(
    engine: Engine, new: Engine
) -> None:
    former, version = rows(engine, *SILVER), engine.version(READS)
    done = rebuild(engine)
    assert done.comparison is not None
    assert (done.comparison.removed, done.comparison.added) == (4, 1)
    assert done.again == ("gold.counts",)
    assert engine.version(READS) == version + 1  # one commit: no reader sees an empty or mixed table
    assert engine.faults() == ()
    after = rows(engine, *SILVER)
    assert after != former
    rebuild(engine, shadow.undo)
    assert rows(engine, *SILVER) == former
    assert engine.faults() == ()
    engine.run("silver", "gold")
    rebuild(engine)
    assert rows(engine, *SILVER) == after
    assert_new(engine, new)


@pytest.mark.parametrize("table", [*SILVER, "before the checkpoint", "between the checkpoints", "at the end"])
def test_a_switch_that_is_cut_off_is_refused_by_a_start_and_finished_by_the_same_command(
    engine: Engine, new: Engine, table: str
) -> None:
    with cut(engine, table), pytest.raises(KeyboardInterrupt):
        rebuild(engine)
    with pytest.raises(CheckpointMismatchError, match=r"medallion rebuild silver\.orders"):
        engine.run("silver")
    with pytest.raises(CheckpointMismatchError):
        changed(engine, BASE).run("silver")
    rebuild(engine)
    assert engine.faults() == ()
    assert_new(engine, new)


def cut(engine: Engine, place: str) -> Any:
    """Have the rebuild end after a table was written, or at a place of the move of the checkpoints."""
    if place == "before the checkpoint":
        return mock.patch.object(shadow, "move_checkpoints", side_effect=KeyboardInterrupt)
    if place == "between the checkpoints":
        real = Path.rename

        def rename(self: Path, target: Any) -> Any:
            if str(self).endswith("__shadow"):
                raise KeyboardInterrupt
            return real(self, target)

        return mock.patch.object(Path, "rename", rename)
    if place == "at the end":
        return mock.patch.object(switch, "keep_record", side_effect=KeyboardInterrupt)
    owner, name = (switch, "make_equal") if place == READS else (delta_table, "replace_all")
    write, path = getattr(owner, name), engine.path(place)

    def written(*given: Any, **named: Any) -> None:
        write(*given, **named)
        if path in given:
            raise KeyboardInterrupt

    return mock.patch.object(owner, name, written)


def test_the_live_query_goes_on_while_the_shadow_is_filled(engine: Engine, new: Engine) -> None:
    live = changed(engine, BASE)
    with Leases(engine.layout.leases, (READS,), "silver"):
        with pytest.raises(LeaseHeldError):
            rebuild(engine)
        live.append_bronze("bronze.orders", [record(10, "w", amount=50)])
        live.run("silver", "gold")
        assert "w" in {row["id"] for row in live.rows(READS)}
    done = rebuild(engine)
    assert done.comparison is not None
    assert {row["id"]: row["amount"] for row in engine.rows(READS)}["w"] == 100
    assert engine.faults() == ()
    new_too = Engine(engine.spark, CHANGED, engine.settings)
    new_too.run("silver", "gold")
    assert new_too.faults() == ()


def test_a_column_of_another_type_comes_by_a_rebuild(engine: Engine) -> None:
    pipeline = replace(CHANGED, silver=[orders(columns=COLUMNS | {"amount": "cast(amount as bigint)"})])
    wide = changed(engine, pipeline)
    done = rebuild(wide)
    assert set(done.again) == {"gold.latest", "gold.counts", "gold.again"}
    assert {type(row["amount"]) for row in wide.rows(READS)} == {int}
    wide.append_bronze("bronze.orders", LAST)
    wide.run("silver")
    assert wide.faults() == ()


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_field_of_a_struct_comes_to_views_over_gold_too(
    spark: Any, tmp_path: Path, *, is_followed: bool
) -> None:
    """By the rebuild of silver, or by the command that the view's own error names."""
    views = [View("v", sql="select id, d from gold.u"), View("n", sql="select count(*) as n from gold.u")]

    def declared(struct: str) -> Pipeline:
        silver = orders(columns=COLUMNS | {"d": struct})
        return replace(BASE, silver=[silver], gold=[Upsert("u", READS, key=["id"], newest_by=["at"]), *views])

    ran(spark, tmp_path, declared("named_struct('a', amount)"))
    wide = Engine(spark, declared("named_struct('a', amount, 'b', country)"), settings_of(tmp_path))
    if is_followed:
        assert rebuild(wide).again == ("gold.u", "gold.v", "gold.n")
    else:
        direct = mock.patch.object(followers, "_all_readers", followers._readers)
        with direct:
            assert rebuild(wide).again == ("gold.u",)
        with pytest.raises(MedallionError, match=r"gold\.v .*medallion rebuild gold\.v"):
            wide.run("silver", "gold")
        refill(wide.pipeline, wide.layout, "gold.v")
    wide.append_bronze("bronze.orders", LAST)
    wide.run("silver", "gold")
    newest = {row["id"]: row["d"] for row in wide.rows("gold.u")}
    assert {row["id"]: row["d"] for row in wide.rows("gold.v")} == newest
    assert {tuple(each) for each in newest.values()} == {("a", "b")}
    assert wide.rows("gold.n") == [{"n": len(newest)}]


def test_a_rebuild_with_the_same_declaration_changes_no_row(engine: Engine) -> None:
    same = changed(engine, BASE)
    former = rows(same, *SILVER, *GOLD)
    done = rebuild(same)
    assert done.comparison is not None
    assert done.comparison.is_equal
    assert len(set(done.comparison.checksums)) == 1
    assert rows(same, *SILVER) == {table: former[table] for table in SILVER}
    same.run("silver", "gold")
    assert rows(same, *GOLD) == {table: former[table] for table in GOLD}
    assert same.faults() == ()


def test_what_cannot_be_taken_back_is_refused(engine: Engine) -> None:
    with pytest.raises(UsageError, match="no rebuild to take back"):
        rebuild(engine, shadow.undo)
    shutil.rmtree(engine.path(READS))
    assert LogReader(engine.path(READS)).latest_version() is None
    with pytest.raises(UsageError, match="does not exist"):
        rebuild(engine)
