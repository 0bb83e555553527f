"""The checks of a start accept the tables and checkpoints of every released version; without Spark."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from common.config.settings import load_settings
from common.declare import Pipeline, Silver, Topic
from common.delta.checkpoint import Checkpoint
from common.delta.match.batch_match import SideStep, StepHistory, check_positions, check_steps
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.checkpoint_repair import plan_repair
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError
from gold.query import side_steps as gold_side_steps
from silver.write.writer import side_steps as silver_side_steps
from tests.golden import archive

ARCHIVES = sorted(archive.FOLDER.glob(f"*{archive.SUFFIX}"))


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda file: file.name.removesuffix(archive.SUFFIX))
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[Pipeline, Layout]:
    """An archive's pipeline, its tables and its checkpoints."""
    folder: Path = tmp_path_factory.mktemp("golden")
    archive.unpack(request.param, folder)
    spec = importlib.util.spec_from_file_location("golden_positions", folder / archive.PIPELINE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    settings = load_settings(overrides=[f"data_dir={folder}"])
    return module.pipeline, Layout.of(module.pipeline, settings)


def steps(declared: Any, layout: Layout) -> tuple[SideStep, ...]:
    """The steps that not every micro-batch of a table has."""
    if isinstance(declared, Topic):
        return ()
    of_layer = silver_side_steps if isinstance(declared, Silver) else gold_side_steps
    return of_layer(declared, layout.table_path)


def test_every_query_may_start_and_needs_no_repair(unpacked: tuple[Pipeline, Layout]) -> None:
    pipeline, layout = unpacked
    assert len(pipeline.tables) > 10
    for declared in pipeline.tables:
        path, place = layout.table_path(declared.table), layout.checkpoint_path(declared.table)
        check_positions(declared.table, path, place)
        check_steps(declared.table, path, place, steps(declared, layout))
        assert plan_repair(declared.table, path, place, has_state=not isinstance(declared, Topic)) == []


def test_their_positions_are_compared(unpacked: tuple[Pipeline, Layout]) -> None:
    """An edited one is noticed, so the comparison above is one."""
    pipeline, layout = unpacked
    for declared in pipeline.tables:
        path, place = layout.table_path(declared.table), layout.checkpoint_path(declared.table)
        newest = Checkpoint(place).last_planned()
        entry = Path(place) / "offsets" / str(newest)
        before = entry.read_text(encoding="utf-8")
        *head, position = before.splitlines()
        found = json.loads(position)
        if "reservoirVersion" in found:
            found["reservoirVersion"] += 1
        else:
            found = {topic: {p: end + 1 for p, end in ends.items()} for topic, ends in found.items()}
        entry.write_text("\n".join([*head, json.dumps(found)]), encoding="utf-8")
        with pytest.raises(CheckpointMismatchError, match="medallion recover"):
            check_positions(declared.table, path, place)
        entry.write_text(before, encoding="utf-8")


def test_the_side_tables_say_which_micro_batch_wrote_them(unpacked: tuple[Pipeline, Layout]) -> None:
    """Their commits name no steps of side tables yet."""
    pipeline, layout = unpacked
    (silver, *_) = pipeline.silver
    last = last_commit_metadata(layout.table_path(silver.table), silver.table)
    assert last is not None
    history = StepHistory(
        layout.table_path(silver.table), {"quarantine": layout.table_path(silver.quarantine)}
    )
    batch = MicroBatch(pipeline.name, silver.table, last["query_id"], last["batch_id"] + 1, ())
    aside = last_commit_metadata(layout.table_path(silver.quarantine), silver.table)
    assert aside is not None
    beside = history.with_steps(batch, {}).facts["beside"]
    assert beside == last.get("beside", {"quarantine": aside["batch_id"]})
