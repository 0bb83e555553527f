"""What is not installed is named in one line, with the command that installs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.errors import MissingExtraError
from common.machine import extras, object_store
from orchestration.observe.alerts.channels import open_channels
from orchestration.observe.page.serve import page_of
from orchestration.quality.expectations import DataDocs


def _page() -> None:
    with page_of(Pipeline(name="x", bronze=[Topic("orders")]), Settings(), "127.0.0.1:0"):
        raise AssertionError("there is a page")


@pytest.mark.parametrize(
    ("extra", "use"),
    [
        ("alerts", lambda: open_channels({"team": "json://127.0.0.1:9"})),
        ("object-stores", lambda: object_store.conditional_store("s3a://lake/tables")),
        ("object-stores", lambda: object_store.put("s3a://lake/tables", "x", b"")),
        ("page", _page),
        ("quality", lambda: DataDocs(None)),  # type: ignore[arg-type]  # nothing is written
    ],
)
def test_a_use_without_its_extra(
    extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as error:
        use()
    assert str(error.value).endswith(f'not installed: pip install "medallion-lakehouse[{extra}]"')
    assert "\n" not in str(error.value)
