"""The format of a commit's metadata: its schema holds, and a program recomputes the balance by it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from common.delta.micro_batch import MicroBatch
from common.delta.table import BY, FILES_APPENDED, maintenance_metadata
from tests.golden import archive

ROOT = Path(__file__).parents[4]
PROGRAM = ROOT / "docs" / "records" / "balance.py"
SCHEMA = json.loads((ROOT / "docs" / "records" / "commits.schema.json").read_text(encoding="utf-8"))
PLACES = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late", "other")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables that a released version wrote."""
    folder = tmp_path_factory.mktemp("commits")
    archive.unpack(archive.FOLDER / "0.1.0.tar.xz", folder)
    return folder / "golden" / "tables"


def faults(told: Any) -> list[str]:
    """What the schema says against a commit's metadata."""
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(told)]


def run(tables: Path, bronze: str, silver: str) -> tuple[int, str]:
    """Exit code and output of the page's program, which nothing of the engine can help."""
    command = [
        sys.executable,
        "-I",
        str(PROGRAM),
        str(tables / "bronze" / bronze),
        str(tables / "silver" / silver),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def edit(log: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Alter what the newest commit of a micro-batch says of itself."""
    for file in sorted(log.glob("*.json"), reverse=True):
        actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        told = json.loads(info.get("userMetadata") or "{}")
        if told.get("step") == "accepted":
            change(told)
            info["userMetadata"] = json.dumps(told)
            file.write_text("\n".join(json.dumps(action) for action in actions), encoding="utf-8")
            return


def test_commits_of_a_release_and_of_today_have_the_format(tables: Path) -> None:
    told = [
        each for path in archive.table_paths(tables.parent).values() for each in archive.own_commits(path)
    ]
    assert len(told) > 50
    today = [json.loads(maintenance_metadata("shop", "silver.orders", by, run_id="r")) for by in BY]
    position = {"reservoirId": "t", "reservoirVersion": 3, "index": -1, "isStartingVersion": False}
    for positions in ((position, None), ({"orders": {"0": 12}},)):
        batch = MicroBatch("shop", "silver.orders", "q", 7, positions, declared={"by": "1a"})
        today.append(json.loads(batch.metadata("accepted", {"accepted": 3, "rules": {"positive": 1}})))
    assert {each["format"] for each in today} == {1}
    wrong = {each["by"] for each in today if faults(each) and "by" in each}
    assert wrong == {FILES_APPENDED}  # never the operation of a commit, only a fact of a micro-batch
    assert [text for each in [*told, *today[len(BY) :]] for text in faults(each)] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("format", 2), ("batch_id", -1), ("positions", 7), ("counts", None), ("query", "x"), ("step", None)],
)
def test_what_is_not_the_format_is_refused_by_the_schema(name: str, value: Any) -> None:
    told = json.loads(MicroBatch("shop", "silver.orders", "q", 7, ({"orders": {"0": 1}},)).metadata("x", {}))
    assert faults(told) == []
    assert faults(told | {name: value})


def test_the_program_of_the_page_recomputes_the_balance(tables: Path) -> None:
    assert len(PROGRAM.read_text(encoding="utf-8").splitlines()) <= 40
    for bronze, silver, numbers in (
        ("orders", "orders", (17, 2, 1, 1, 1, 2, 0)),
        ("customers", "changes", (9, 0, 0, 0, 1, 0, 0)),
        ("payments", "payments", (10, 0, 0, 0, 2, 0, 0)),
    ):
        code, text = run(tables, bronze, silver)
        assert code == 0, text
        counted = {
            name: int(number.replace(",", "")) for name, number in map(str.split, text.splitlines()[:7])
        }
        assert counted == dict(zip(PLACES, numbers, strict=True))
        assert f"balanced: {sum(numbers)} rows" in text


def test_the_program_of_the_page_finds_a_wrong_count_and_another_format(tables: Path) -> None:
    log = tables / "silver" / "orders" / "_delta_log"
    edit(log, lambda told: told["counts"].update(duplicates=told["counts"]["duplicates"] + 1))
    code, text = run(tables, "orders", "orders")
    assert (code, "24 rows read, 25 counted" in text) == (1, True)
    edit(log, lambda told: told.update(format=2))
    code, text = run(tables, "orders", "orders")
    assert (code, "format 2; this program reads format 1" in text) == (1, True)


def test_the_program_of_the_page_reads_logs_that_others_write_too(tables: Path) -> None:
    """A note of another program, and a checkpoint; a log without its first commits is named."""
    log = tables / "silver" / "payments" / "_delta_log"
    before = run(tables, "payments", "payments")
    note = {"commitInfo": {"operation": "OPTIMIZE", "userMetadata": "weekly tidy-up"}}
    last = max(int(file.stem) for file in log.glob("[0-9]*.json"))
    (log / f"{last + 1:020}.json").write_text(json.dumps(note), encoding="utf-8")
    checkpoint = f"{last:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log / checkpoint).write_text("{}", encoding="utf-8")
    assert run(tables, "payments", "payments") == before
    (log / f"{0:020}.json").unlink()
    code, text = run(tables, "payments", "payments")
    assert (code, "the log has no commit 0" in text) == (1, True)
    assert "the log has no commit 0" in run(tables, "payments", "nowhere")[1]
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False)
    assert "python balance.py" in done.stderr
