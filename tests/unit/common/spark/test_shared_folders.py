"""A folder that the executors of a cluster do not share with the driver is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import SetupError
from common.spark import jvm, shared_folders


class Cluster:
    """A session whose executors write as many files as the driver sees."""

    def __init__(self, seen: float, master: str = "spark://host:7077") -> None:
        self.sparkContext = SimpleNamespace(master=master, defaultParallelism=3)
        self.seen, self.folders = seen, list[Path]()

    def range(self, start: int, end: int, step: int, tasks: int) -> Any:
        def parquet(path: str) -> None:
            self.folders.append(Path(path))
            Path(path).mkdir(parents=True)
            for number in range(round(self.seen * tasks)):
                (Path(path) / f"part-{number}").touch()

        return SimpleNamespace(write=SimpleNamespace(parquet=parquet))


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        jvm, "delete_folder", lambda _, path: [each.unlink() for each in Path(path).iterdir()]
    )
    monkeypatch.setattr(jvm, "has_executor", lambda _: True)


def test_each_folder_is_tried_by_all_executors(tmp_path: Path) -> None:
    spark: Any = Cluster(seen=1)
    shared_folders.require_shared_folders(spark, str(tmp_path / "a"), str(tmp_path / "b"))
    assert [one.parent.name for one in spark.folders] == ["a", "b"]
    assert not [file for one in spark.folders for file in one.iterdir()]


def test_a_folder_in_which_the_driver_misses_a_file_is_refused(tmp_path: Path) -> None:
    spark: Any = Cluster(seen=5 / 6)
    with pytest.raises(SetupError, match=r"a is not one folder .* of 6 files .* the driver finds 5\. Tables"):
        shared_folders.require_shared_folders(spark, str(tmp_path / "a"))


def test_one_machine_is_not_asked(tmp_path: Path) -> None:
    spark: Any = Cluster(seen=0, master="local[2]")
    shared_folders.require_shared_folders(spark, str(tmp_path / "a"))
    assert spark.folders == []
