"""Earthquakes: every version of every quake that the feed publishes, and what is known of each now."""

from generator import quakes

from medallion import (
    Aggregate,
    Expect,
    History,
    InRange,
    Json,
    Matches,
    NullShare,
    Pipeline,
    Quality,
    References,
    RowCount,
    Rule,
    SameDistribution,
    Silver,
    Storage,
    Topic,
    Unique,
    Upsert,
    Window,
    gx,
)

# The feed at times changes a version without a new `updated`: id and `updated` alone do not tell two apart.
VERSION = ("quake_id", "updated_at", "event_at", "magnitude")

ARRIVAL = "struct(updated_at, _kafka_offset)"  # all versions of a quake are in one partition

LATENCY = "unix_millis(detected_at) - unix_millis(event_at)"

MAGNITUDE_CLASS = """
    case when magnitude < 2 then 'micro' when magnitude < 4 then 'minor' when magnitude < 5 then 'light'
         when magnitude < 6 then 'moderate' else 'strong' end"""


def instant(milliseconds: str) -> str:
    """SQL for a moment; null beyond the year 5138, where one wrong number would stop the query instead."""
    return f"timestamp_millis(case when {milliseconds} between 0 and 1e14 then {milliseconds} end)"


pipeline = Pipeline(
    name="earthquakes",
    bronze=[Topic("quakes", sample=quakes)],
    silver=[
        Silver(
            "quakes",  # grain: one row per version of a quake
            reads="bronze.quakes",
            value=Json("quake.schema.json"),
            columns={
                "quake_id": "substring_index(properties.url, '/', -1)",
                "network": "left(substring_index(properties.url, '/', -1), 2)",
                "event_at": instant("properties.time"),
                "updated_at": instant("properties.updated"),
                "magnitude": "properties.mag",
                "depth_km": "get(geometry.coordinates, 2)",
                "longitude": "get(geometry.coordinates, 0)",
                "latitude": "get(geometry.coordinates, 1)",
                "place": "properties.place",
                "status": "properties.status",
                "is_retracted": "properties.status <=> 'deleted'",
            },
            key=VERSION,
            event_time="event_at",
            watermark="30 days",  # as far back as the feed reaches
            rules=[
                Rule("magnitude_in_range", "magnitude between -3 and 10"),
                Rule("coordinates_on_earth", "abs(longitude) <= 180 and abs(latitude) <= 90"),
                Rule("depth_plausible", "depth_km between -10 and 800"),
            ],
        )
    ],
    gold=[
        Aggregate(
            "quakes_by_network",
            reads="silver.quakes",
            by={"network": "network", "magnitude_class": MAGNITUDE_CLASS},
            measures={
                "versions": "count(*)",
                "strongest": "max(magnitude)",
                "latest_event_at": "max(event_at)",
                "retractions": "count_if(is_retracted)",
            },
        ),
        Upsert("quakes_latest", reads="silver.quakes", key=["quake_id"], newest_by=["updated_at"]),
        Aggregate(
            "quakes_by_hour",  # a quake whose time was revised over the full hour is in both
            reads="silver.quakes",
            by=["network"],
            window=Window("event_at", "1 hour"),
            mode="recompute",
            measures={
                "quakes": "count(distinct quake_id)",
                "versions": "count(*)",
                "strongest": "max(magnitude)",
            },
        ),
        History(
            "quake_magnitudes",  # grain: one row per quake and time in which its magnitude was the same
            reads="silver.quakes",
            key=["quake_id"],
            valid_by="updated_at",
            columns=["network", "magnitude"],
            delete_when="is_retracted",
        ),
        Aggregate(
            "magnitude_changes",  # grain: one row per quake: its first magnitude, and its last
            reads="silver.quakes",
            by=["quake_id"],
            mode="recompute",
            measures={
                "versions": "count(*)",
                "first_at": "min(updated_at)",
                "last_at": "max(updated_at)",
                "first_magnitude": f"min_by(magnitude, {ARRIVAL})",
                "last_magnitude": f"max_by(magnitude, {ARRIVAL})",
                "change": f"max_by(magnitude, {ARRIVAL}) - min_by(magnitude, {ARRIVAL})",
            },
        ),
        Upsert(
            "quakes_first",  # grain: one row per quake: the earliest version there is of it
            reads="silver.quakes",
            key=["quake_id"],
            newest_by=["earliness"],
            columns={
                "quake_id": "quake_id",
                "network": "network",
                "event_at": "event_at",
                "detected_at": "updated_at",
                "earliness": "-unix_micros(updated_at)",
            },
            storage=Storage(change_feed=True),
        ),
        Aggregate(
            "detection_latency",  # from a quake to its earliest version, in milliseconds
            reads="gold.quakes_first",
            by=["network"],
            mode="recompute",
            measures={
                "quakes": "count(*)",
                "median_ms": f"percentile({LATENCY}, 0.5)",
                "p95_ms": f"percentile({LATENCY}, 0.95)",
            },
        ),
        Aggregate(
            "quakes_retracted",  # grain: one row per quake that the service took back
            reads="silver.quakes",
            by=["quake_id", "network"],
            where="is_retracted",
            mode="recompute",
            measures={
                "retracted_at": "min(updated_at)",
                "event_at": f"max_by(event_at, {ARRIVAL})",
                "magnitude": f"max_by(magnitude, {ARRIVAL})",
            },
        ),
    ],
    quality=[
        Quality(
            "silver.quakes",
            [
                Expect("expect_column_values_to_not_be_null", {"column": "place"}),
                Matches("network", "^[a-z]{2}$"),
                Unique(VERSION),
                SameDistribution("network", max_change=0.2, severity="warn"),
            ],
        ),
        Quality(
            "gold.quakes_latest",
            [
                RowCount(min=1),
                Unique(["quake_id"]),
                InRange("magnitude", max=9.5),  # the strongest that was ever measured: Valdivia, 1960
                NullShare("magnitude", max=0.05),
                References(["quake_id"], "silver.quakes"),
                gx.expectations.ExpectColumnMeanToBeBetween(column="depth_km", min_value=0, max_value=100),
            ],
            gate="publish",  # readers of gold.quakes_latest__published get a version that passed
        ),
    ],
)
