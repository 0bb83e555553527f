"""A recovery leaves a folder alone to which a job publishes, whose data folder is another one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from common.config.paths import Layout
from common.declare import FileSink, Publish
from common.delta.lease.local_leases import Leases
from common.errors import LeaseHeldError
from orchestration.change.recover.carry_out import recover_all
from tests.conftest import make_settings
from tests.support.oracles.orders import orders_pipeline


def test_a_copy_of_a_data_folder_does_not_move_what_its_first_job_publishes(tmp_path: Path) -> None:
    export = tmp_path / "export"
    publish = Publish("files", reads="silver.orders", to=FileSink(str(export)))
    pipeline = replace(orders_pipeline("orders", watermark="1 hour"), publish=[publish])
    layout = Layout(str(tmp_path / "copy"), str(tmp_path / "copy" / "checkpoints"), tmp_path / "copy")
    settings = make_settings(tmp_path, "none:1")
    recovered = partial(recover_all, pipeline, settings, layout)
    assert recovered().steps == ()
    assert not export.exists()  # nor is a folder made for its lock file
    with Leases(export / "_manifest", ["publish.files"], "up"):
        with pytest.raises(LeaseHeldError, match=r"publish\.files is being written by up \(pid") as refused:
            recovered()
        assert refused.value.exit_code == 4
    assert recovered().steps == ()
