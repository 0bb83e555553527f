"""When a publication reads the change data feed of its table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from common.delta.table import BEGINS_FEED, maintenance_metadata
from gold.publish.query import is_feed_whole


@pytest.mark.parametrize(
    ("version", "is_whole"), [(None, True), (0, False), (1, False), (2, False), (3, True), (4, True)]
)
def test_a_feed_that_was_turned_on_before_all_rows_were_sent_waits(
    tmp_path: Path, version: int | None, *, is_whole: bool
) -> None:
    """The feed begins with version 2; the publication has sent what is before a version."""
    begins = maintenance_metadata("shop", "gold.met", "evolution", **{BEGINS_FEED: True})
    for number in range(4):
        metadata = {"userMetadata": begins} if number == 2 else {}
        write_deltalake(
            str(tmp_path / "t"),
            pa.table({"n": [number]}),
            mode="append",
            commit_properties=CommitProperties(custom_metadata=metadata),
        )
    if version is not None:
        for folder in ("offsets", "commits"):
            (tmp_path / "c" / folder).mkdir(parents=True)
        position = json.dumps({"reservoirVersion": version, "index": -1, "reservoirId": "t"})
        (tmp_path / "c" / "offsets" / "0").write_text(f"v1\n{{}}\n{position}")
        (tmp_path / "c" / "commits" / "0").write_text("v1\n{}")
    assert is_feed_whole(str(tmp_path / "t"), str(tmp_path / "c")) == is_whole
