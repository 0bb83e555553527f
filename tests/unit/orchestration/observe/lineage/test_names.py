"""Names of datasets, compared with the naming classes of OpenLineage's own library."""

from __future__ import annotations

import pytest
from openlineage.client.naming import dataset as library

from orchestration.observe.lineage.names import table_name, topic_name


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/lake/shop/tables/gold/t", library.LocalFileSystem("/lake/shop/tables/gold/t")),
        ("s3a://lake/shop/gold/t", library.S3("lake", "shop/gold/t")),
        ("gs://lake/shop/gold/t", library.GCS("lake", "shop/gold/t")),
        ("hdfs://node:8020/lake/gold/t", library.HDFS("node", "8020", "/lake/gold/t")),
        ("abfss://box@store.dfs.core.windows.net/gold/t", library.ABFSS("box", "store", "/gold/t")),
    ],
)
def test_a_table(path: str, expected: library.DatasetNaming) -> None:
    assert tuple(table_name(path)) == (expected.get_namespace(), expected.get_name())


@pytest.mark.parametrize("servers", ["one:9092", "one:9092,two:9092", "one", "SASL_SSL://one:9092"])
def test_a_topic(servers: str) -> None:
    expected = library.Kafka("one", "9092", "orders")
    assert tuple(topic_name(servers, "orders")) == (expected.get_namespace(), expected.get_name())
