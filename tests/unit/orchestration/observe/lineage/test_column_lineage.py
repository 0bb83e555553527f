"""The exact column lineage of the examples and of every kind of gold table, from the declarations alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import (
    Aggregate,
    Bytes,
    ChangeFeed,
    ConsoleSink,
    Custom,
    Gold,
    History,
    Join,
    Json,
    KafkaSink,
    Lookup,
    Pipeline,
    Publish,
    Rule,
    Session,
    Silver,
    Stateful,
    Topic,
    Upsert,
    View,
)
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.check.pipeline import table_scopes
from orchestration.observe.lineage.datasets import Datasets, QueryDatasets
from orchestration.observe.lineage.sources import ColumnSources
from orchestration.observe.lineage.statement_sources import of_statement

EXAMPLES = Path(__file__).parents[5] / "examples"
COORDINATES = ("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp")
TIES = ("_kafka_timestamp", "_kafka_topic", "_kafka_partition", "_kafka_offset")


def datasets(pipeline: Pipeline, more: Mapping[str, Sequence[str]] | None = None) -> Datasets:
    """The datasets of a pipeline whose tables have the columns that its check knows, and more."""
    layout = Layout.of(pipeline, Settings(data_dir=Path("/lake")))
    scopes = table_scopes(pipeline)
    known = {
        layout.table_path(table): {field.name: field.type for field in scope.fields or ()}
        for table, scope in scopes.items()
    }
    for table, names in (more or {}).items():
        known[table if "/" in table else layout.table_path(table)] = dict.fromkeys(names, "string")
    return Datasets(pipeline, layout, "broker:9092", lambda path: known.get(path, {}))


def lineage(found: QueryDatasets, place: int = 0) -> ColumnSources:
    sources = found.outputs[place].sources
    assert sources is not None
    return sources


def shown(sources: ColumnSources) -> dict[str, list[str]]:
    """Sources as short text; ``rows`` are those that decide about rows."""
    content = {name: [f"{s.table}.{s.column} {s.kind}" for s in of] for name, of in sources.columns.items()}
    return {**content, "rows": [f"{s.table}.{s.column} {s.kind}" for s in sources.rows]}


def newest(table: str, key: str, by: str) -> list[str]:
    """What decides about the newest row of a key."""
    return [f"{table}.{key} WINDOW", *(f"{table}.{name} SORT" for name in (by, *TIES))]


def copies(table: str, *names: str) -> dict[str, list[str]]:
    return {name: [f"{table}.{name} IDENTITY"] for name in names}


QUAKES = "silver.quakes"
BY_ARRIVAL = [f"{QUAKES}.{name} AGGREGATION" for name in ("updated_at", "_kafka_offset")]

EARTHQUAKES: dict[str, dict[str, list[str]]] = {
    "gold.quakes_by_network": {
        **copies(QUAKES, "network"),
        "magnitude_class": [f"{QUAKES}.magnitude TRANSFORMATION"],
        "versions": [],
        "strongest": [f"{QUAKES}.magnitude AGGREGATION"],
        "latest_event_at": [f"{QUAKES}.event_at AGGREGATION"],
        "retractions": [f"{QUAKES}.is_retracted AGGREGATION"],
        "rows": [f"{QUAKES}.network GROUP_BY", f"{QUAKES}.magnitude GROUP_BY"],
    },
    "gold.quakes_by_hour": {
        **copies(QUAKES, "network"),
        "window_start": [f"{QUAKES}.event_at TRANSFORMATION"],
        "window_end": [f"{QUAKES}.event_at TRANSFORMATION"],
        "quakes": [f"{QUAKES}.quake_id AGGREGATION"],
        "versions": [],
        "strongest": [f"{QUAKES}.magnitude AGGREGATION"],
        "rows": [
            f"{QUAKES}.network GROUP_BY", f"{QUAKES}.event_at GROUP_BY", f"{QUAKES}.event_at FILTER",
        ],
    },
    "gold.quakes_latest": {
        **copies(
            QUAKES, "quake_id", "network", "event_at", "updated_at", "magnitude", "depth_km", "longitude",
            "latitude", "place", "status", "is_retracted", *COORDINATES, "_ingested_at",
        ),
        "rows": newest(QUAKES, "quake_id", "updated_at"),
    },
    "gold.quake_magnitudes": {
        **copies(QUAKES, "quake_id", "network", "magnitude"),
        "valid_from": [f"{QUAKES}.updated_at IDENTITY"],
        "valid_to": [f"{QUAKES}.updated_at TRANSFORMATION"],
        "is_current": [f"{QUAKES}.updated_at TRANSFORMATION"],
        "versions": [],
        "last_at": [f"{QUAKES}.updated_at AGGREGATION"],
        **copies(QUAKES, *COORDINATES),
        "rows": [
            f"{QUAKES}.is_retracted FILTER",
            f"{QUAKES}.quake_id WINDOW",
            f"{QUAKES}.updated_at SORT",
            *(f"{QUAKES}.{name} FILTER" for name in ("network", "magnitude")),
            *(f"{QUAKES}.{name} WINDOW" for name in ("is_retracted", "network", "magnitude", "updated_at")),
            *(f"{QUAKES}.{name} SORT" for name in TIES),
            f"{QUAKES}.updated_at FILTER",
        ],
    },
    "gold.magnitude_changes": {
        **copies(QUAKES, "quake_id"),
        "versions": [],
        "first_at": [f"{QUAKES}.updated_at AGGREGATION"],
        "last_at": [f"{QUAKES}.updated_at AGGREGATION"],
        **{
            name: [f"{QUAKES}.magnitude AGGREGATION", *BY_ARRIVAL]
            for name in ("first_magnitude", "last_magnitude", "change")
        },
        "rows": [f"{QUAKES}.quake_id GROUP_BY"],
    },
    "gold.quakes_first": {
        **copies(QUAKES, "quake_id", "network", "event_at"),
        "detected_at": [f"{QUAKES}.updated_at IDENTITY"],
        "earliness": [f"{QUAKES}.updated_at TRANSFORMATION"],
        **copies(QUAKES, *COORDINATES),
        "rows": newest(QUAKES, "quake_id", "updated_at"),
    },
    "gold.detection_latency": {
        **copies("gold.quakes_first", "network"),
        "quakes": [],
        **{
            name: [f"gold.quakes_first.{of} AGGREGATION" for of in ("detected_at", "event_at")]
            for name in ("median_ms", "p95_ms")
        },
        "rows": ["gold.quakes_first.network GROUP_BY"],
    },
    "gold.quakes_retracted": {
        **copies(QUAKES, "quake_id", "network"),
        "retracted_at": [f"{QUAKES}.updated_at AGGREGATION"],
        "event_at": [f"{QUAKES}.event_at AGGREGATION", *BY_ARRIVAL],
        "magnitude": [f"{QUAKES}.magnitude AGGREGATION", *BY_ARRIVAL],
        "rows": [
            f"{QUAKES}.quake_id GROUP_BY", f"{QUAKES}.network GROUP_BY", f"{QUAKES}.is_retracted FILTER",
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("table", EARTHQUAKES)
def test_the_gold_tables_of_the_earthquakes(table: str) -> None:
    pipeline = load_pipeline(EXAMPLES / "earthquakes" / "pipeline.py")
    assert set(EARTHQUAKES) == {gold.table for gold in pipeline.gold}
    assert shown(lineage(datasets(pipeline).of(table))) == EARTHQUAKES[table]


def test_bronze_silver_and_side_tables_of_the_earthquakes() -> None:
    found = datasets(load_pipeline(EXAMPLES / "earthquakes" / "pipeline.py"))
    bronze = shown(lineage(found.of("bronze.quakes")))
    assert bronze["value"] == ["topic.value IDENTITY"]
    assert bronze["kafka_timestamp"] == ["topic.timestamp IDENTITY"]
    assert bronze["ingested_at"] == []
    silver = found.of("silver.quakes")
    main, quarantine, late = (shown(lineage(silver, place)) for place in range(3))
    assert main["magnitude"] == ["bronze.quakes.value TRANSFORMATION"]
    assert main["_kafka_timestamp"] == ["bronze.quakes.kafka_timestamp IDENTITY"]
    assert main["rows"] == ["bronze.quakes.value FILTER", "bronze.quakes.value GROUP_BY"]
    assert quarantine["value"] == ["bronze.quakes.value IDENTITY"]
    assert quarantine["reasons"] == ["bronze.quakes.value TRANSFORMATION"]
    assert late["magnitude"] == main["magnitude"]
    assert late["_watermark"] == []
    sql = lineage(silver).columns["depth_km"][0].sql
    assert sql == "get(geometry.coordinates, 2)"


def test_the_gold_tables_of_the_orders() -> None:
    found = datasets(load_pipeline(EXAMPLES / "orders_cdc" / "pipeline.py"))
    orders = found.of("gold.orders")
    names = ("order_id", "customer_id", "status", "cents", "note", "changed_at", "log_position")
    rows = ["silver.orders.operation FILTER", *newest("silver.orders", "order_id", "log_position")]
    # Rows before the newest truncation do not count.
    rows += [f"silver.orders.{name} FILTER" for name in ("log_position", *TIES)]
    assert shown(lineage(orders)) == {
        **copies("silver.orders", *names, *COORDINATES),
        "rows": rows,
    }
    assert [output.table for output in orders.outputs] == ["gold.orders", "gold.orders__deleted"]
    assert shown(lineage(orders, 1)) == {
        **copies("silver.orders", "order_id", "log_position", *COORDINATES),
        "rows": rows,
    }
    joined = found.of("gold.orders_with_customers")
    assert [one.table for one in joined.inputs] == ["gold.orders", "gold.customers"]
    assert shown(lineage(joined)) == {
        **copies("gold.orders", "order_id", "status", "cents", "customer_id", *COORDINATES),
        "customer": ["gold.customers.name IDENTITY"],
        "city": ["gold.customers.city IDENTITY"],
        "rows": [
            *(f"gold.orders.{name} WINDOW" for name in COORDINATES[:3]),
            *(f"gold.orders.{name} SORT" for name in ("order_id", "status", "cents", "customer_id")),
            *(f"gold.customers.{name} SORT" for name in ("name", "city")),
            "gold.orders.customer_id JOIN",
            "gold.customers.customer_id JOIN",
        ],
    }


def shop(*gold: Gold, **silver: Any) -> Pipeline:
    declared = {
        "reads": "bronze.orders",
        "value": Json("id string, at timestamp, cents int, country string"),
        "columns": {"id": "id", "at": "at", "cents": "cents", "country": "country"},
        "key": ["id"],
        "event_time": "at",
        "watermark": "1 day",
    }
    return Pipeline(
        name="shop", bronze=[Topic("orders")], silver=[Silver("orders", **{**declared, **silver})], gold=gold
    )


def test_a_function_says_all_columns() -> None:
    names = ["id", "at", "_kafka_offset", "_ingested_at"]
    pipeline = shop(columns=lambda rows: rows)
    found = shown(lineage(datasets(pipeline, {"silver.orders": names}).of("silver.orders")))
    everything = [
        f"bronze.orders.{name} TRANSFORMATION"
        for name in (
            "topic",
            "partition",
            "offset",
            "kafka_timestamp",
            "kafka_timestamp_type",
            "ingested_at",
            "key",
            "value",
            "headers",
        )
    ]
    assert found["id"] == everything
    assert found["_kafka_offset"] == ["bronze.orders.offset IDENTITY"]
    custom = Custom("days", reads="silver.orders", write=print, tables={"days": "day date, n bigint"})
    tables = datasets(shop(custom)).of("gold.days")
    read = ["id", "at", "cents", "country", *COORDINATES, "_ingested_at"]
    assert shown(lineage(tables)) == {
        **{name: [f"silver.orders.{of} TRANSFORMATION" for of in read] for name in ("day", "n")},
        "rows": [],
    }


def test_a_processor_is_given_rows_of_a_key_by_a_condition_in_order() -> None:
    processor = type("Third", (), {"handleInputRows": None})
    declared = Stateful(
        "thirds",
        reads="silver.orders",
        key=["Country"],
        processor=processor,
        output="country string, orders int",
        where="cents > 0",
        event_time="at",
    )
    read = ["id", "at", "cents", "country", *COORDINATES, "_ingested_at"]
    assert shown(lineage(datasets(shop(declared)).of("gold.thirds"))) == {
        **{name: [f"silver.orders.{of} TRANSFORMATION" for of in read] for name in ("country", "orders")},
        "rows": [
            "silver.orders.country GROUP_BY",
            "silver.orders.at SORT",
            "silver.orders.cents FILTER",
        ],
    }


def test_a_processors_initial_state_is_a_source_of_each_column() -> None:
    processor = type("Third", (), dict.fromkeys(("handleInputRows", "handleInitialState")))
    declared = Stateful(
        "thirds", "silver.orders", key=["id"], processor=processor, output="n int", initial="/lake/former"
    )
    read = datasets(shop(declared), {"/lake/former": ["id", "seen"]}).of("gold.thirds")
    assert [one.name.name for one in read.inputs][1] == "/lake/former"
    found = shown(lineage(read))
    assert found["n"][-2:] == [f"/lake/former.{name} TRANSFORMATION" for name in ("id", "seen")]
    assert found["rows"] == ["silver.orders.id GROUP_BY", "/lake/former.id JOIN"]


def test_a_reference_to_the_record_is_not_the_value() -> None:
    columns = {"id": "cast(_kafka.key as string)", "at": "_kafka.timestamp", "raw": "value"}
    pipeline = shop(value=Bytes(), columns=columns, where="_kafka.topic = 'a'")
    found = shown(lineage(datasets(pipeline).of("silver.orders")))
    assert found["id"] == ["bronze.orders.key TRANSFORMATION"]
    assert found["at"] == ["bronze.orders.kafka_timestamp IDENTITY"]
    assert found["raw"] == ["bronze.orders.value TRANSFORMATION"]
    assert found["rows"] == [
        "bronze.orders.topic FILTER",
        "bronze.orders.key GROUP_BY",
        "bronze.orders.kafka_timestamp FILTER",
    ]


def test_a_lookup_is_joined_and_read_by_a_rule_that_rejects() -> None:
    lookup = Lookup("countries", "s3a://reference/countries", on={"code": "country"})
    rules = [Rule("known", "countries.code is not null"), Rule("cheap", "cents < 100", on_fail="warn")]
    found = datasets(shop(lookups=[lookup], rules=rules)).of("silver.orders")
    assert shown(lineage(found))["rows"] == [
        "s3a://reference/countries.code FILTER",
        "s3a://reference/countries.code JOIN",
        "bronze.orders.value JOIN",
        "bronze.orders.value GROUP_BY",
        "bronze.orders.value FILTER",
    ]
    assert [tuple(one.name) for one in found.inputs] == [
        ("file", "/lake/shop/tables/bronze/orders"),
        ("s3://reference", "countries"),
    ]


def test_a_view_comes_from_all_of_its_tables() -> None:
    sql = "select o.id, n.name from silver.orders o join delta.`/lake/names` n on n.code = o.country"
    found = datasets(shop(View("named", sql=sql)), {"/lake/names": ["code", "name"]}).of("gold.named")
    assert shown(lineage(found)) == {
        "id": ["silver.orders.id IDENTITY"],
        "name": ["/lake/names.name IDENTITY"],
        "rows": ["/lake/names.code JOIN", "silver.orders.country JOIN"],
    }
    assert [one.name.name for one in found.inputs] == ["/lake/shop/tables/silver/orders", "/lake/names"]


def test_joins_by_path_semi_and_as_streams() -> None:
    columns = {"id": "id", "name": "joined.name", "all": "to_json(joined)"}
    by_path = Join(
        "by_path",
        reads="silver.orders",
        joins="/lake/names",
        on={"code": "upper(country)"},
        columns=columns,
        mode="lookup",
    )
    found = shown(lineage(datasets(shop(by_path), {"/lake/names": ["code", "name"]}).of("gold.by_path")))
    assert found["name"] == ["/lake/names.name IDENTITY"]
    assert found["all"] == ["/lake/names.code TRANSFORMATION", "/lake/names.name TRANSFORMATION"]
    assert found["rows"] == ["silver.orders.country JOIN", "/lake/names.code JOIN"]
    semi = Join(
        "semi", reads="silver.orders", joins="gold.newest", on={"id": "id"}, columns={"id": "id"}, how="semi"
    )
    newest = Upsert("newest", reads="silver.orders", key=["id"], newest_by=["at"])
    assert shown(lineage(datasets(shop(newest, semi)).of("gold.semi"))) == {
        **copies("silver.orders", "id", *COORDINATES),
        "rows": ["silver.orders.id JOIN", "gold.newest.id JOIN"],
    }


def test_sessions_deletes_and_renamed_orders() -> None:
    sessions = Aggregate(
        "sessions",
        reads="silver.orders",
        window=Session("at", "5 minutes"),
        mode="recompute",
        measures={"n": "count(*)", "seconds": "sum(cents) / unix_seconds(window_end)"},
        where="cents > 0",
    )
    found = shown(lineage(datasets(shop(sessions)).of("gold.sessions")))
    assert [each.split()[0] for each in found["seconds"]] == ["silver.orders.cents", "silver.orders.at"]
    assert found["rows"] == [f"silver.orders.{use}" for use in ("at GROUP_BY", "cents FILTER", "at FILTER")]
    latest = Upsert(
        "newest",
        reads="silver.orders",
        key=["k"],
        newest_by=["o"],
        columns={"k": "lower(id)", "o": "at"},
        delete_when="cents = 0",
        where="country <> ''",
    )
    tables = datasets(shop(latest)).of("gold.newest")
    decide = newest("silver.orders", "id", "at")
    assert [shown(lineage(tables, place))["rows"] for place in (0, 1)] == [
        ["silver.orders.cents FILTER", *decide, "silver.orders.country FILTER"]
    ] * 2
    assert list(lineage(tables, 1).columns) == ["k", "o", *COORDINATES]


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (KafkaSink("out"), {"value": ["id", "cents"]}),
        (KafkaSink("out", key="country", value="to_json(struct(at))"), {"key": ["country"], "value": ["at"]}),
    ],
)
def test_a_published_message(sink: KafkaSink, expected: dict[str, list[str]]) -> None:
    publish = Publish("out", reads="silver.orders", to=sink, columns=["id", "cents"], where="cents > 9")
    pipeline = Pipeline(name="shop", bronze=shop().bronze, silver=shop().silver, publish=[publish])
    found = datasets(pipeline).of("publish.out")
    (output,) = found.outputs
    assert tuple(output.name) == ("kafka://broker:9092", "out")
    sources = lineage(found)
    assert {name: [one.column for one in of] for name, of in sources.columns.items()} == expected
    assert [one.column for one in sources.rows] == ["cents"]
    console = Pipeline(
        name="shop",
        bronze=shop().bronze,
        silver=shop().silver,
        publish=[Publish("out", reads="silver.orders", to=ConsoleSink())],
    )
    assert datasets(console).of("publish.out").outputs == ()


def test_names_are_compared_as_spark_compares_them() -> None:
    """Also those of a condition of truncations, which none of the columns is computed from."""
    history = History(
        "past", reads="silver.orders", key=["id"], valid_by="at", columns={"land": "COUNTRY"},
        truncates="CENTS < 0",
    )  # fmt: skip
    feed = ChangeFeed(
        "feed", reads="silver.orders", key=["id"], sequence_by=["at"], operation="upper(COUNTRY)",
        truncates="CENTS < 0",
    )  # fmt: skip
    past, copy = (shown(lineage(datasets(shop(gold)).of(gold.table))) for gold in (history, feed))
    assert past["land"] == copy["country"] == ["silver.orders.country IDENTITY"]
    assert "silver.orders.country FILTER" in copy["rows"]
    assert all("silver.orders.cents FILTER" in rows for rows in (past["rows"], copy["rows"]))
    assert past["valid_from"] == ["silver.orders.at IDENTITY"]


OF_VIEWS = {
    "select c.country, count(*) as n, sum(o.amount * 2) as total from silver.orders o left join "
    "silver.customers c on o.customer = c.customer where o.amount > 1 group by c.country": (
        {
            "country": [("silver.customers", "country", "IDENTITY", "")],
            "n": [],
            "total": [("silver.orders", "amount", "AGGREGATION", "sum(o.amount * 2)")],
        },
        {
            ("silver.orders", "customer", "JOIN"),
            ("silver.customers", "customer", "JOIN"),
            ("silver.orders", "amount", "FILTER"),
            ("silver.customers", "country", "GROUP_BY"),
        },
    ),
    "with t as (select customer, sum(amount) as s from silver.orders group by customer) "
    "select s + 1 as more from t": (
        {"more": [("silver.orders", "amount", "AGGREGATION", "t.s + 1")]},
        {("silver.orders", "customer", "GROUP_BY")},
    ),
    "select customer from silver.orders union all select country from silver.customers": (
        {
            "customer": [
                ("silver.orders", "customer", "IDENTITY", ""),
                ("silver.customers", "country", "IDENTITY", ""),
            ]
        },
        set(),
    ),
    "select word, rank() over (partition by word order by amount) as place from silver.orders "
    "lateral view explode(split(text, ' ')) w as word": (
        {
            "word": [("silver.orders", "text", "TRANSFORMATION", "explode(split(orders.text, ' '))")],
            "place": [
                (
                    "silver.orders",
                    name,
                    "TRANSFORMATION",
                    "rank() over (partition by w.word order by orders.amount)",
                )
                for name in ("text", "amount")
            ],
        },
        {("silver.orders", "text", "WINDOW"), ("silver.orders", "amount", "SORT")},
    ),
    "select order_id, a + 1 as b from (select order_id, customer, amount from silver.orders) pivot "
    "(sum(amount * 2) for customer in ('x' as a))": (
        {
            "order_id": [("silver.orders", "order_id", "IDENTITY", "")],
            "b": [("silver.orders", "amount", "AGGREGATION", "pivot.a + 1")],
        },
        {("silver.orders", "order_id", "GROUP_BY"), ("silver.orders", "customer", "GROUP_BY")},
    ),
    "select customer from silver.orders where exists (select 1 from silver.customers c where c.customer = "
    "orders.customer and c.country = 'DE')": (
        {"customer": [("silver.orders", "customer", "IDENTITY", "")]},
        {
            ("silver.orders", "customer", "JOIN"),
            ("silver.customers", "customer", "JOIN"),
            ("silver.customers", "country", "FILTER"),
        },
    ),
}


@pytest.mark.parametrize("sql", OF_VIEWS)
def test_a_views_columns_are_followed_through_its_statement(sql: str) -> None:
    columns, rows = OF_VIEWS[sql]
    tables = {
        "silver.orders": ["order_id", "customer", "amount", "text"],
        "silver.customers": ["customer", "country"],
    }
    found = of_statement(sql, [], tables)
    have = {
        name: [(each.table, each.column, each.kind, each.sql) for each in sources]
        for name, sources in found.columns.items()
    }
    assert have == columns
    assert {(each.table, each.column, each.kind) for each in found.rows} == rows


def test_a_view_that_is_computed_whole_comes_from_all_columns() -> None:
    found = of_statement(
        "select customer from silver.orders order by amount limit 3",
        ["customer"],
        {"silver.orders": ["customer", "amount"]},
    )
    assert [each.column for each in found.columns["customer"]] == ["customer", "amount"]
