"""Rows sent on to an object of the user's own and to the terminal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from common.declare import ConsoleSink, ForeachSink, Pipeline, Publish, Topic
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

SCHEMA = "k string, version int"


class Files:
    """Writes a file per partition and row; told of every start and end of a partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, partition: int, batch: int) -> bool:
        self.place = f"{batch}-{partition}"
        return True

    def process(self, row: Any) -> None:
        (self.folder / f"{self.place}-{quote(str(row.k), safe='')}-{row.version}").touch()

    def close(self, error: Exception | None) -> None:
        (self.folder / f"closed-{self.place}-{error}").touch()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def ran(spark: Any, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Four commits of silver: one is published alone, the others together."""
    publish = [
        Publish("files", reads="silver.orders", to=ForeachSink(Files(files))),
        Publish("shown", reads="silver.orders", to=ConsoleSink(rows=2), columns=["k"]),
    ]
    pipeline = Pipeline("shop", bronze=[Topic("orders")], publish=publish)
    engine = Engine(spark, pipeline, make_settings(tmp_path_factory.mktemp("publish"), "none:1"))
    engine.append("silver.orders", [("a", 1), (None, 2), ("c", 3)], SCHEMA)
    engine.publish()
    for more in ([("a", 4), ("a", 0)], [("a", 5), (None, 8)], [("a", 6)]):
        engine.append("silver.orders", more, SCHEMA)
    engine.publish()
    return engine


def test_an_object_of_the_users_own_gets_every_row(ran: Engine, files: Path) -> None:
    names = [file.name for file in files.iterdir() if not file.name.startswith("closed")]
    assert Counter(tuple(name.split("-")[2:]) for name in names) == Counter(
        [("a", version) for version in "14056"] + [("None", "2"), ("c", "3"), ("None", "8")]
    )
    assert {int(name.split("-")[0]) >> 32 for name in names} == {0, 1}
    closed = [file.name for file in files.iterdir() if file.name.startswith("closed")]
    assert closed
    assert all(name.endswith("-None") for name in closed)


def test_rows_are_shown_on_the_terminal(ran: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """A start shows only what is new."""
    ran.append("silver.orders", [("z\x1b]0;t\x9b\u202e\0", -9)], SCHEMA)
    ran.publish()
    shown = capsys.readouterr().out
    assert "publish.shown, micro-batch 2" in shown
    assert r"|z\x1b]0;t\x9b\u202e\x00|" in shown.replace(" ", "")
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
