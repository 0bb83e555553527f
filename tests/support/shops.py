"""The plain tables that pipelines of the tests declare where the table is not what the test is about."""

from __future__ import annotations

import re
from typing import Any

from common.declare import Json, Silver

_NAME = re.compile(r"(?:^|,)\s*(\w+)\s")


def plain_silver(name: str, schema: str, **declared: Any) -> Silver:
    """A silver table of JSON documents whose columns are the fields of the schema, with their names.

    Without other words it reads the bronze table of its name, its key is ``id``, its event time ``at``, and
    its watermark a day.

    Args:
        name: The table's name.
        schema: The fields of the documents, as DDL without nested types.
        declared: What else the table declares, or declares otherwise.
    """
    plain = {
        "reads": f"bronze.{name}",
        "value": Json(schema),
        "columns": _NAME.findall(re.sub(r"\([^)]*\)", "", schema)),
        "key": ["id"],
        "event_time": "at",
        "watermark": "1 day",
    }
    return Silver(name, **{**plain, **declared})
