"""Orders, customers and payments in a gold table of each kind. Each record is a row of silver."""

from medallion import (
    Aggregate,
    History,
    Join,
    Json,
    Pipeline,
    Session,
    Silver,
    Storage,
    Topic,
    Upsert,
    View,
    Window,
    Within,
)

COORDINATES = {"place": "concat_ws('/', _kafka.topic, _kafka.partition, _kafka.offset)"}
ORDER = ("k", "version", "country", "amount", "status", "at")
EVERY_RECORD = {"key": ["place"], "event_time": "sent_at", "watermark": "1 hour"}

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("customers"), Topic("payments")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("k string, version int, country string, amount double, status string, at timestamp"),
            columns={name: name for name in ORDER} | {"sent_at": "_kafka.timestamp", **COORDINATES},
            **EVERY_RECORD,
        ),
        Silver(
            "customers",
            reads="bronze.customers",
            value=Json("id string, name string, version int"),
            columns={
                "id": "id",
                "name": "name",
                "version": "version",
                "sent_at": "_kafka.timestamp",
                **COORDINATES,
            },
            **EVERY_RECORD,
        ),
        Silver(
            "payments",
            reads="bronze.payments",
            value=Json("of string, paid_at timestamp"),
            columns={"of": "of", "paid_at": "paid_at", "sent_at": "_kafka.timestamp", **COORDINATES},
            **EVERY_RECORD,
        ),
    ],
    gold=[
        Upsert("latest", reads="silver.orders", key=["k"], newest_by=["version"]),
        Upsert(
            "brief",
            reads="silver.orders",
            key=["id", "country"],
            newest_by=["newness"],
            columns={"id": "upper(k)", "country": "country", "newness": "-version", "status": "status"},
        ),
        Upsert(
            "living", reads="silver.orders", key=["k"], newest_by=["version"], delete_when="status = 'gone'"
        ),
        Upsert("large", reads="silver.orders", key=["k"], newest_by=["version"], where="amount >= 5"),
        Upsert(
            "partial",
            reads="silver.orders",
            key=["k"],
            newest_by=["version"],
            columns={
                "k": "k",
                "version": "version",
                "status": "status",
                "amounts": "if(amount is null, null, map('eur', amount))",
            },
            ignore_nulls=True,
        ),
        Aggregate(
            "by_country",
            reads="silver.orders",
            by={"country": "country", "is_large": "amount >= 10"},
            measures={"orders": "count(*)", "total": "sum(amount)", "keys": "size(collect_set(k))"},
            where="version >= 0",
        ),
        View(
            "days",
            sql="""
                select date_trunc('day', from_utc_timestamp(at, 'Europe/Berlin')) as day, count(*) as orders
                from silver.orders group by day
            """,
        ),
        Aggregate(
            "weeks",
            reads="silver.orders",
            window=Window("at", "1 week", offset="4 days"),
            measures={"orders": "count(*)"},
            mode="recompute",
        ),
        Aggregate("most", reads="silver.orders", by=["k"], measures={"most": "max(amount)"}, mode="update"),
        Aggregate(
            "exact",
            reads="silver.orders",
            by=["country"],
            measures={"keys": "count(distinct k)", "median": "percentile(amount, 0.5)"},
            mode="recompute",
        ),
        Aggregate(
            "closed",
            reads="silver.orders",
            by=["k"],
            window=Window("at", "10 minutes"),
            measures={"orders": "count(*)"},
            mode="append",
            watermark="10 minutes",
        ),
        Aggregate(
            "sliding",
            reads="silver.orders",
            window=Window("at", "10 minutes", "5 minutes"),
            measures={"orders": "count(*)"},
        ),
        Aggregate(
            "visits",
            reads="silver.orders",
            by=["k"],
            window=Session("at", "5 minutes"),
            measures={"orders": "count(*)"},
            mode="recompute",
        ),
        Aggregate(
            "closed_visits",
            reads="silver.orders",
            by=["k"],
            window=Session("at", "5 minutes"),
            measures={"orders": "count(*)"},
            mode="append",
            watermark="6 minutes",
        ),
        History(
            "tracked",
            reads="silver.orders",
            key=["k"],
            valid_by="at",
            columns=["status"],
            sequence_by=["version"],
            untracked=["amount"],
            ignore_nulls=True,
        ),
        History(
            "listed",
            reads="silver.orders",
            key=["k"],
            valid_by="at",
            columns=["status"],
            snapshots="followed",
        ),
        History(
            "listed_at_once",
            reads="silver.orders",
            key=["k"],
            valid_by="at",
            columns=["status"],
            snapshots="arrived",
        ),
        History(
            "states",
            reads="silver.orders",
            key=["k", "country"],
            valid_by="at",
            columns={"status": "status", "is_large": "amount >= 5"},
        ),
        History(
            "lives",
            reads="silver.orders",
            key=["k"],
            valid_by="at",
            columns=["status"],
            delete_when="status = 'gone'",
        ),
        Upsert(
            "last_customers",
            reads="silver.customers",
            key=["id"],
            newest_by=["version"],
            storage=Storage(change_feed=True),
        ),
        Join(
            "named",
            reads="silver.orders",
            joins="silver.customers",
            on={"id": "k"},
            columns={"k": "k", "amount": "amount", "name": "upper(customers.name)"},
        ),
        Join(
            "known",
            reads="silver.orders",
            joins="silver.customers",
            on={"id": "k"},
            columns=["k", "amount"],
            how="semi",
        ),
        Join(
            "named_last",
            reads="silver.orders",
            joins="gold.last_customers",
            on={"id": "k"},
            columns={"k": "k", "amount": "amount", "name": "last_customers.name"},
            how="inner",
        ),
        Join(
            "named_then",
            reads="silver.orders",
            joins="gold.last_customers",
            on={"id": "k"},
            columns={"k": "k", "amount": "amount", "name": "last_customers.name"},
            mode="lookup",
        ),
        *(
            Join(
                f"paid_{how}",
                reads="silver.orders",
                joins="silver.payments",
                on={"of": "k"},
                columns=["k"] if how == "semi" else {"k": "k", "paid_at": "payments.paid_at"},
                how=how,
                mode="stream",
                within=Within(
                    on="at",
                    joins_on="paid_at",
                    after="-5 minutes",
                    before="1 hour",
                    watermark="10 minutes",
                    joins_watermark="10 minutes",
                ),
            )
            for how in ("inner", "left", "semi")
        ),
    ],
)
