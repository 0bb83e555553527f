"""Orders that change, customers that come and go, and views over them, kept in each of the three ways."""

from medallion import Json, Pipeline, Silver, Topic, Upsert, View

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("customers")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, customer string, amount decimal(8,2), tags array<string>, at timestamp"),
            columns={"id": "id", "customer": "customer", "amount": "amount", "tags": "tags", "at": "at"},
            key=["id"],
            event_time="at",
            watermark="1 day",
            dedupe="exact",
            keep="newest",
        ),
        Silver(
            "customers",
            reads="bronze.customers",
            value=Json("id string, country string, gone boolean, at timestamp"),
            columns={"id": "id", "country": "country", "gone": "gone", "at": "at"},
            key=["id", "at"],
            event_time="at",
            watermark="1 day",
        ),
    ],
    gold=[
        Upsert(
            "customers",
            reads="silver.customers",
            key=["id"],
            newest_by=["at"],
            columns=["id", "country", "at"],
            delete_when="gone",
        ),
        View("large", kept="by row", sql="select id, amount from silver.orders where amount > 10"),
        View(
            "countries_of_orders",
            kept="by row",
            sql="""
                select o.id, c.country
                from silver.orders o left join gold.customers c on c.id = o.customer
            """,
        ),
        View(
            "of_strangers",
            kept="by row",
            sql="""
                select o.id from silver.orders o
                where not exists (select 1 from gold.customers c where c.id = o.customer)
            """,
        ),
        View(
            "tags",
            kept="by row",
            sql="select tag, id from silver.orders lateral view explode(tags) t as tag",
        ),
        View(
            "both_sides",
            kept="by row",
            sql="select customer as name from silver.orders union all select id from gold.customers",
        ),
        View(
            "regulars",
            kept="by key",
            sql="""
                select customer, count(*) as orders, max(amount) as largest
                from silver.orders group by customer having count(*) > 1
            """,
        ),
        View(
            "newest",
            kept="by key",
            sql="""
                select customer, id from (
                    select *, row_number() over (partition by customer order by at desc, id) as place
                    from silver.orders
                ) where place = 1
            """,
        ),
        View(
            "countries",
            kept="by key",
            sql="select distinct country from gold.customers where country is not null",
        ),
        View(
            "newest_snapshot",
            kept="by row",
            sql="select id, country from silver.customers where at = (select max(at) from silver.customers)",
        ),
        View(
            "below_largest",
            kept="by row",
            sql="select id, (select max(amount) from silver.orders) - amount as below from silver.orders",
        ),
    ],
)
