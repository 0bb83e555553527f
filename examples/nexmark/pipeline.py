"""The queries of the Nexmark benchmark, each a gold table that is kept up to date: gold.q0 to gold.q22."""

from auction_site import auctions, bids, persons, side_input

from medallion import Aggregate, Json, Pipeline, Session, Silver, Storage, Topic, Upsert, View, Window


def instant(field: str) -> str:
    """SQL for a moment; null beyond the year 5138, where one wrong number would stop the query instead."""
    return f"timestamp_millis(case when {field} between 0 and 1e14 then {field} end)"


# When it happened, and the start of the ten seconds it happened in.
TIMES = {"date_time": instant("dateTime"), "ten_seconds": instant("dateTime - dateTime % 10000")}

# What the benchmark counts of a group's bids.
COUNTS = """
    count(*) as total_bids,
    count(*) filter (where price < 10000) as rank1_bids,
    count(*) filter (where price >= 10000 and price < 1000000) as rank2_bids,
    count(*) filter (where price >= 1000000) as rank3_bids
"""
DISTINCT = ", ".join(
    f"""
    count(distinct {column}) as total_{name},
    count(distinct {column}) filter (where price < 10000) as rank1_{name},
    count(distinct {column}) filter (where price >= 10000 and price < 1000000) as rank2_{name},
    count(distinct {column}) filter (where price >= 1000000) as rank3_{name}
    """
    for name, column in {"bidders": "bidder", "auctions": "auction"}.items()
)

SILVER = [
    Silver(
        "persons",  # grain: one row per person
        reads="bronze.persons",
        value=Json(
            "id bigint, name string, emailAddress string, creditCard string, city string, state string, "
            "dateTime bigint, extra string"
        ),
        columns={
            **{name: name for name in ("id", "name", "city", "state", "extra")},
            "email_address": "emailAddress",
            "credit_card": "creditCard",
            **TIMES,
        },
        key=["id"],
        event_time="date_time",
        watermark="1 minute",
    ),
    Silver(
        "auctions",  # grain: one row per auction
        reads="bronze.auctions",
        value=Json(
            "id bigint, itemName string, description string, initialBid bigint, reserve bigint, "
            "dateTime bigint, expires bigint, seller bigint, category bigint, extra string"
        ),
        columns={
            **{name: name for name in ("id", "description", "reserve", "seller", "category", "extra")},
            "item_name": "itemName",
            "initial_bid": "initialBid",
            "expires": instant("expires"),
            **TIMES,
        },
        key=["id"],
        event_time="date_time",
        watermark="1 minute",
    ),
    Silver(
        "bids",  # grain: one row per bid; the benchmark's have no id
        reads="bronze.bids",
        value=Json(
            "auction bigint, bidder bigint, price bigint, channel string, url string, dateTime bigint, "
            "extra string"
        ),
        columns={
            **{name: name for name in ("auction", "bidder", "price", "channel", "url", "extra")},
            **TIMES,
            "arrived_at": "_kafka.timestamp",
        },
        key=["auction", "bidder", "date_time"],
        event_time="date_time",
        watermark="1 minute",
    ),
    Silver(
        "side_input",  # grain: one row per key
        reads="bronze.side_input",
        value=Json("key bigint, value string"),
        columns={"key": "key", "value": "value", "arrived_at": "_kafka.timestamp"},
        key=["key"],
        event_time="arrived_at",
        watermark="1 minute",
    ),
]

GOLD = [
    # Pass through.
    View("q0", sql="select auction, bidder, price, date_time, extra from silver.bids"),
    # Dollars to euros.
    View("q1", sql="select auction, bidder, 0.908 * price as price, date_time, extra from silver.bids"),
    # Bids for some auctions.
    View("q2", sql="select auction, price from silver.bids where auction % 123 = 0"),
    # Who sells in certain states?
    View(
        "q3",
        sql="""
            select p.name, p.city, p.state, a.id
            from silver.auctions a join silver.persons p on a.seller = p.id
            where a.category = 10 and p.state in ('OR', 'ID', 'CA')
        """,
    ),
    # The average price of a category's winning bids.
    View(
        "q4",
        sql="""
            select category, avg(final) as average
            from (
                select max(b.price) as final, a.category
                from silver.auctions a join silver.bids b on a.id = b.auction
                where b.date_time between a.date_time and a.expires
                group by a.id, a.category
            ) w
            group by category
        """,
    ),
    # Which auctions have most bids in ten seconds, asked every two seconds?
    View(
        "q5",
        sql="""
            with hops as (
                select auction, hop
                from (select auction, unix_millis(date_time) as ms from silver.bids) b
                lateral view explode(sequence(ms - ms % 2000 - 8000, ms - ms % 2000, 2000)) h as hop
            ), counts as (
                select auction, hop, count(*) as num from hops group by auction, hop
            ), most as (
                select hop, max(num) as num from counts group by hop
            )
            select c.auction, c.num, timestamp_millis(c.hop) as starts_at
            from counts c join most m on c.hop = m.hop
            where c.num >= m.num
        """,
    ),
    # The average price of a seller's last eleven winning bids: the rows of gold.q9, as they are now.
    View(
        "q6",
        sql="""
            select seller, id, bid_date_time, avg(price) over (
                partition by seller order by bid_date_time, id rows between 10 preceding and current row
            ) as average
            from gold.q9
        """,
    ),
    # The highest bids of every ten seconds.
    View(
        "q7",
        sql="""
            select b.auction, b.price, b.bidder, b.date_time, b.extra
            from silver.bids b
            join (select ten_seconds, max(price) as price from silver.bids group by ten_seconds) m
            on b.ten_seconds = m.ten_seconds and b.price = m.price
        """,
    ),
    # Who sells something within the ten seconds in which they came?
    View(
        "q8",
        sql="""
            select distinct p.id, p.name, p.ten_seconds as starts_at
            from silver.persons p join silver.auctions a on p.id = a.seller and p.ten_seconds = a.ten_seconds
        """,
    ),
    # The winning bid of every auction.
    View(
        "q9",
        sql="""
            select
                id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
                auction, bidder, price, bid_date_time, bid_extra
            from (
                select a.*, b.auction, b.bidder, b.price, b.date_time as bid_date_time, b.extra as bid_extra,
                    row_number() over (
                        partition by a.id order by b.price desc, b.date_time, b.bidder
                    ) as place
                from silver.auctions a join silver.bids b on a.id = b.auction
                where b.date_time between a.date_time and a.expires
            ) w
            where place = 1
        """,
    ),
    # Bids in a folder per day and minute.
    View(
        "q10",
        sql="""
            select auction, bidder, price, date_time, extra,
                date_format(date_time, 'yyyy-MM-dd') as dt, date_format(date_time, 'HH:mm') as hm
            from silver.bids
        """,
        storage=Storage(partition_by=["dt", "hm"]),
    ),
    # A bidder's bids without a pause of ten seconds.
    Aggregate(
        "q11",
        reads="silver.bids",
        by=["bidder"],
        window=Session("date_time", "10 seconds"),
        mode="recompute",
        measures={"bid_count": "count(*)"},
    ),
    # A bidder's bids in ten seconds of the time at which they arrived.
    Aggregate(
        "q12",
        reads="silver.bids",
        by=["bidder"],
        window=Window("arrived_at", "10 seconds"),
        mode="recompute",
        measures={"bid_count": "count(*)"},
    ),
    # Bids with a value of the side input.
    View(
        "q13",
        sql="""
            select b.auction, b.bidder, b.price, b.date_time, s.value
            from silver.bids b join silver.side_input s on b.auction % 100 = s.key
        """,
    ),
    # Bids within a range of prices, with the time of day and how often a letter is in a text.
    View(
        "q14",
        sql="""
            select auction, bidder, 0.908 * price as price,
                case when hour(date_time) >= 8 and hour(date_time) <= 18 then 'dayTime'
                     when hour(date_time) <= 6 or hour(date_time) >= 20 then 'nightTime'
                     else 'otherTime' end as bid_time_type,
                date_time, extra, length(extra) - length(replace(extra, 'c', '')) as c_counts
            from silver.bids
            where 0.908 * price > 1000000 and 0.908 * price < 50000000
        """,
    ),
    # A day's bids, bidders and auctions.
    View(
        "q15",
        sql=f"""
            select date_format(date_time, 'yyyy-MM-dd') as day, {COUNTS}, {DISTINCT}
            from silver.bids group by date_format(date_time, 'yyyy-MM-dd')
        """,  # noqa: S608  # the texts above
    ),
    # The same per channel, and the last minute.
    View(
        "q16",
        sql=f"""
            select channel, date_format(date_time, 'yyyy-MM-dd') as day,
                max(date_format(date_time, 'HH:mm')) as minute, {COUNTS}, {DISTINCT}
            from silver.bids group by channel, date_format(date_time, 'yyyy-MM-dd')
        """,  # noqa: S608  # the texts above
    ),
    # An auction's bids of a day, and their prices.
    View(
        "q17",
        sql=f"""
            select auction, date_format(date_time, 'yyyy-MM-dd') as day, {COUNTS},
                min(price) as min_price, max(price) as max_price, avg(price) as avg_price,
                sum(price) as sum_price
            from silver.bids group by auction, date_format(date_time, 'yyyy-MM-dd')
        """,  # noqa: S608  # the texts above
    ),
    # A bidder's last bid for an auction.
    Upsert(
        "q18",
        reads="silver.bids",
        key=["bidder", "auction"],
        newest_by=["date_time"],
        columns={
            name: name for name in ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
        },
    ),
    # The ten highest bids of every auction.
    View(
        "q19",
        sql="""
            select * from (
                select auction, bidder, price, channel, url, date_time, extra,
                    row_number() over (
                        partition by auction order by price desc, date_time, bidder
                    ) as place
                from silver.bids
            ) b
            where place <= 10
        """,
    ),
    # Bids with their auctions, of one category.
    View(
        "q20",
        sql="""
            select b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name,
                a.description, a.initial_bid, a.reserve, a.date_time as auction_date_time, a.expires,
                a.seller, a.category, a.extra as auction_extra
            from silver.bids b join silver.auctions a on b.auction = a.id
            where a.category = 10
        """,
    ),
    # The number of a bid's channel.
    View(
        "q21",
        sql="""
            select auction, bidder, price, channel,
                case when lower(channel) = 'apple' then '0'
                     when lower(channel) = 'google' then '1'
                     when lower(channel) = 'facebook' then '2'
                     when lower(channel) = 'baidu' then '3'
                     else regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) end as channel_id
            from silver.bids
            where regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''
                or lower(channel) in ('apple', 'google', 'facebook', 'baidu')
        """,
    ),
    # The folders of a bid's address.
    View(
        "q22",
        sql="""
            select auction, bidder, price, channel, split_part(url, '/', 4) as dir1,
                split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3
            from silver.bids
        """,
    ),
]

pipeline = Pipeline(
    name="nexmark",
    bronze=[
        Topic("persons", sample=persons),
        Topic("auctions", sample=auctions),
        Topic("bids", sample=bids),
        Topic("side_input", sample=side_input),
    ],
    silver=SILVER,
    gold=GOLD,
)
