"""A brokerage's warehouse: histories that are joined over their intervals, snapshots, balances, facts.

Sources are change messages and files. Everything is declared; no function writes a table.
"""

from brokerage import accounts, cash, customers, trades

from medallion import Csv, Files, History, Json, Pipeline, Rule, Silver, Topic, Upsert, View

SILVER = [
    Silver(
        "customers",  # grain: one row per change of a customer; null leaves a value as it was
        reads="bronze.customers",
        value=Json(
            "change_id bigint, action string, customer_id bigint, name string, city string, tier int, "
            "phone string, changed_at timestamp"
        ),
        columns=["change_id", "action", "customer_id", "name", "city", "tier", "phone", "changed_at"],
        key=["change_id"],
        event_time="changed_at",
        watermark="1 hour",
        rules=[Rule("of_a_customer", "customer_id is not null")],
    ),
    Silver(
        "accounts",  # grain: one row per change of an account; null leaves a value as it was
        reads="bronze.accounts",
        value=Json(
            "change_id bigint, action string, account_id bigint, customer_id bigint, broker string, "
            "status string, changed_at timestamp"
        ),
        columns=["change_id", "action", "account_id", "customer_id", "broker", "status", "changed_at"],
        key=["change_id"],
        event_time="changed_at",
        watermark="1 hour",
    ),
    Silver(
        "trades",  # grain: one row per revision of a trade
        reads="bronze.trades",
        value=Json(
            "trade_id bigint, revision int, status string, account_id bigint, symbol string, quantity int, "
            "price decimal(10,2), fee decimal(10,2), traded_at timestamp"
        ),
        columns=[
            "trade_id",
            "revision",
            "status",
            "account_id",
            "symbol",
            "quantity",
            "price",
            "fee",
            "traded_at",
        ],
        key=["trade_id", "revision"],
        event_time="traded_at",
        watermark="1 hour",
        dedupe="exact",
    ),
    Silver(
        "cash",  # grain: one row per movement of money
        reads="bronze.cash",
        value=Json("move_id bigint, account_id bigint, amount decimal(10,2), moved_at timestamp"),
        columns=["move_id", "account_id", "amount", "moved_at"],
        key=["move_id"],
        event_time="moved_at",
        watermark="1 hour",
    ),
    Silver(
        "prospects",  # grain: one row per prospect and day; a day's rows are all prospects that there are
        reads="bronze.prospects",
        value=Csv("prospect_id bigint, name string, city string, net_worth bigint"),
        columns={
            **{name: name for name in ("prospect_id", "name", "city", "net_worth")},
            "taken_on": "try_cast(cast(map_from_entries(_kafka.headers)['taken_on'] as string) as timestamp)",
        },
        key=["prospect_id", "taken_on"],
        event_time="taken_on",
        watermark="7 days",
        dedupe="exact",
    ),
    Silver(
        "prices",  # grain: one row per symbol and day
        reads="bronze.prices",
        value=Csv("symbol string, day date, close decimal(10,2), high decimal(10,2), low decimal(10,2)"),
        columns={
            **{name: name for name in ("symbol", "day", "close", "high", "low")},
            "closed_at": "cast(day as timestamp)",
        },
        key=["symbol", "day"],
        event_time="closed_at",
        watermark="7 days",
        dedupe="exact",
    ),
]

GOLD = [
    # Customers and accounts as they were at any time. A change of the phone number begins no new row.
    History(
        "customers",
        reads="silver.customers",
        key=["customer_id"],
        valid_by="changed_at",
        sequence_by=["change_id"],
        columns=["name", "city", "tier"],
        untracked=["phone"],
        ignore_nulls=True,
        delete_when="action = 'close'",
        surrogate_key="customer_key",
    ),
    History(
        "accounts",
        reads="silver.accounts",
        key=["account_id"],
        valid_by="changed_at",
        sequence_by=["change_id"],
        columns=["customer_id", "broker", "status"],
        ignore_nulls=True,
        surrogate_key="account_key",
    ),
    # Which account was whose, and as what: a row per account and time in which neither changed.
    View(
        "account_owners",
        sql="""
            select a.account_id, a.account_key, c.customer_key, c.customer_id, c.name, c.city, c.tier,
                a.broker, a.status,
                greatest(a.valid_from, c.valid_from) as valid_from, least(a.valid_to, c.valid_to) as valid_to
            from gold.accounts a join gold.customers c
                on a.customer_id = c.customer_id
                and (c.valid_to is null or a.valid_from < c.valid_to)
                and (a.valid_to is null or c.valid_from < a.valid_to)
        """,
    ),
    # Trades as last corrected, without those that were cancelled.
    Upsert(
        "trades",
        reads="silver.trades",
        key=["trade_id"],
        newest_by=["revision"],
        delete_when="status = 'cancelled'",
        columns=["trade_id", "revision", "account_id", "symbol", "quantity", "price", "fee", "traded_at"],
    ),
    # Each trade with its account and customer as they were when it was made.
    View(
        "trade_facts",
        sql="""
            select t.trade_id, t.traded_at, t.account_id, o.account_key, o.customer_key, o.tier, o.broker,
                t.symbol, t.quantity, t.quantity * t.price as amount, t.fee
            from gold.trades t left join gold.account_owners o
                on t.account_id = o.account_id
                and t.traded_at >= o.valid_from and (o.valid_to is null or t.traded_at < o.valid_to)
        """,
    ),
    # What an account holds.
    View(
        "holdings",
        sql="""
            select account_id, symbol, sum(quantity) as quantity, count(*) as trades
            from gold.trades
            group by account_id, symbol
            having sum(quantity) <> 0
        """,
    ),
    # What money came to an account on each day, or left it.
    View(
        "cash_by_day",
        sql="""
            select account_id, day, sum(amount) as amount
            from (
                select account_id, cast(moved_at as date) as day, amount from silver.cash
                union all
                select account_id, cast(traded_at as date) as day, -(quantity * price) - fee as amount
                from gold.trades
            ) moves
            group by account_id, day
        """,
    ),
    # What an account has at the end of each such day.
    View(
        "cash_balances",
        sql="""
            select account_id, day, amount, sum(amount) over (partition by account_id order by day) as balance
            from gold.cash_by_day
        """,
    ),
    # Prospects at any time: who is missing from a day's file is none from that day on.
    History(
        "prospects",
        reads="silver.prospects",
        key=["prospect_id"],
        valid_by="taken_on",
        columns=["name", "city", "net_worth"],
        snapshots="followed",
    ),
    # Prospects that are no customers yet.
    View(
        "prospects_to_win",
        sql="""
            select p.prospect_id, p.name, p.city, p.net_worth
            from gold.prospects p
            where p.is_current and not exists (
                select 1 from gold.customers c where c.is_current and c.name = p.name and c.city = p.city
            )
        """,
    ),
    # The highest and the lowest price of the fifty-two weeks until each day.
    View(
        "prices_of_a_year",
        sql="""
            select symbol, day, close, high, low,
                max(high) over (
                    partition by symbol order by day range between interval 363 day preceding and current row
                ) as highest,
                min(low) over (
                    partition by symbol order by day range between interval 363 day preceding and current row
                ) as lowest
            from silver.prices
        """,
    ),
]

pipeline = Pipeline(
    name="brokerage",
    bronze=[
        Topic("customers", sample=customers),
        Topic("accounts", sample=accounts),
        Topic("trades", sample=trades),
        Topic("cash", sample=cash),
        Files("prospects", path="prospects", format="csv", header=True),
        Files("prices", path="prices", format="csv", header=True),
    ],
    silver=SILVER,
    gold=GOLD,
)
