"""Names of datasets by OpenLineage's naming specification, which other tools' events have too."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit


class DatasetName(NamedTuple):
    """Namespace and name of a dataset."""

    namespace: str
    name: str


_OBJECT_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}
_DEFAULT_PORT = "9092"


def table_name(path: str) -> DatasetName:
    """The name of a table by its path or URI: ``file`` and the path, or the store and the key in it."""
    if "://" not in path:
        return DatasetName("file", path)
    parts = urlsplit(path)
    if parts.scheme in _OBJECT_STORES:
        return DatasetName(f"{_OBJECT_STORES[parts.scheme]}://{parts.netloc}", parts.path.strip("/"))
    return DatasetName(f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/") or "/")


def topic_name(bootstrap_servers: str, topic: str) -> DatasetName:
    """The name of a topic: the first of the broker's addresses, and the topic."""
    first = bootstrap_servers.split(",", maxsplit=1)[0].strip().rpartition("://")[2]
    has_port = first.rpartition(":")[2].isdigit()
    return DatasetName(f"kafka://{first}" if has_port else f"kafka://{first}:{_DEFAULT_PORT}", topic)
