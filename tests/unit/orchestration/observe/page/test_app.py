"""The page's server: a real one on loopback, over the real files of a pipeline that has run."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.config.paths import HISTORY
from common.declare import NullShare, Quality, RowCount
from common.delta.lease.local_leases import Leases
from common.errors import AddressError
from common.machine.service_manager import ServiceManager
from orchestration.access.history import micro_batches
from orchestration.observe.metrics.metric_list import METRICS
from orchestration.observe.page.app import HEADERS, LOOPBACK_HOSTS, build_app
from orchestration.observe.page.live import Live
from orchestration.observe.page.serve import page_of
from orchestration.observe.page.server import is_loopback, listen, parse_address, serving, url
from orchestration.quality import results
from orchestration.quality.judgement import ExpectationResult, SuiteResult
from tests.support.oracles.lived_in import HOSTILE, PIPELINE, TABLES, LivedIn
from tests.unit.orchestration.access.history.test_micro_batches import row


class Client:
    """Calls one server."""

    def __init__(self, address: str) -> None:
        self.host = address.removeprefix("http://").rstrip("/")

    def get(self, path: str, **headers: str) -> HTTPResponse:
        connection = HTTPConnection(self.host, timeout=20)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def json(self, path: str) -> dict[str, object]:
        answer = self.get(path)
        assert answer.status == 200, answer.read()
        found: dict[str, object] = json.loads(answer.read())
        return found


@pytest.fixture
def lived_in(tmp_path: Path) -> LivedIn:
    found = LivedIn(tmp_path)
    found.caught_up()
    return found


@pytest.fixture
def client(lived_in: LivedIn) -> Iterator[Client]:
    live = Live(PIPELINE, lived_in.settings, lived_in.layout)
    with serving(build_app(live, hosts=LOOPBACK_HOSTS), listen("127.0.0.1:0")) as address:
        yield Client(address)


def test_each_answer_has_the_headers_that_keep_scripts_out(client: Client) -> None:
    for path in ("/", "/metrics", "/healthz", "/api/status", "/static/page.js", "/no/such/page"):
        answer = client.get(path)
        answer.read()
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS, path
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_asks_no_other_host_and_has_no_script_or_style_inside(client: Client) -> None:
    page = client.get("/").read().decode()
    assert "<h1>shop</h1>" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "<style" not in page
    assert " style=" not in page
    assert page.count("<script") == page.count("<script src=")
    script = client.get("/static/page.js").read().decode()
    assert "innerHTML" not in script
    assert "eval(" not in script
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")


def test_the_process_is_healthy_and_not_ready_before_its_queries_run(
    client: Client, lived_in: LivedIn
) -> None:
    assert client.get("/healthz").read() == b"ok\n"
    answer = client.get("/readyz")
    assert answer.status == 503
    assert answer.read().decode().splitlines() == [f"{table}: no job runs" for table in TABLES]


def test_it_is_ready_once_all_queries_run(client: Client, lived_in: LivedIn) -> None:
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job()
        assert client.get("/readyz").status == 200


def test_it_is_not_ready_while_its_job_starts_spark_or_waits_for_a_broker(lived_in: LivedIn) -> None:
    """The job holds its leases then, and has not written its state."""
    with Leases(lived_in.layout.leases, TABLES, "up"):
        found = Live(PIPELINE, lived_in.settings, lived_in.layout).unready()
        assert found == [f"{table}: job up starts" for table in TABLES]


def test_a_query_whose_source_has_no_rows_yet_does_not_keep_it_from_ready(tmp_path: Path) -> None:
    lived_in = LivedIn(tmp_path)
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job("starting")
        live = Live(PIPELINE, lived_in.settings, lived_in.layout)
        assert live.unready() == []
        lived_in.bronze(3, ago=1)
        lived_in.silver(3, 0, 0)
        found = Live(PIPELINE, lived_in.settings, lived_in.layout).unready()
    assert found == ["gold.by_day: starts once its source has rows"]


def test_a_process_that_supervises_its_queries_no_more_is_not_alive(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page answers all the same; a service manager restarts it."""
    service = ServiceManager()
    service.alive()
    assert client.get("/healthz").status == 200
    monkeypatch.setattr("orchestration.observe.page.app._SILENT_SECONDS", -1.0)
    answer = client.get("/healthz")
    assert (answer.status, answer.read().decode()) == (503, "the queries have not been supervised for 0 s\n")
    service.stopping()
    assert client.get("/healthz").status == 200


def test_healthz_answers_while_all_threads_wait_for_a_slow_store(
    lived_in: LivedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service manager would kill a job whose rows are right."""
    live, slow = Live(PIPELINE, lived_in.settings, lived_in.layout), threading.Event()
    monkeypatch.setattr(live, "status", lambda: slow.wait(30))
    with serving(build_app(live), listen("127.0.0.1:0")) as address:
        client = Client(address)
        viewers = [threading.Thread(target=client.get, args=("/api/status",), daemon=True) for _ in range(50)]
        for viewer in viewers:
            viewer.start()
        time.sleep(1)
        began = time.monotonic()
        assert client.get("/healthz").read() == b"ok\n"
        assert time.monotonic() - began < 5
        slow.set()


def test_a_process_of_one_layer_is_ready_by_its_own_queries(lived_in: LivedIn) -> None:
    lived_in.job("failed", error="x")
    for own, reasons in (((), 1), (("gold.by_day",), 1), (("silver.orders",), 0)):
        assert len(Live(PIPELINE, lived_in.settings, lived_in.layout, own).unready()) == reasons, own


def test_a_record_that_waits_longer_than_the_goal_makes_it_not_ready(tmp_path: Path) -> None:
    lived_in = LivedIn(tmp_path, http={"freshness_goal": "30 seconds"})
    lived_in.caught_up()
    lived_in.bronze(5, ago=60)
    lived_in.batch("bronze.orders", 1, {"orders": {"0": 15}})
    lived_in.job()
    found = Live(PIPELINE, lived_in.settings, lived_in.layout).unready()
    assert [reason.partition(" waits for 6")[0] for reason in found] == [
        "silver.orders: a record",
        "gold.by_day: a record",
    ]


def test_every_metric_is_on_the_endpoint(client: Client, lived_in: LivedIn) -> None:
    lived_in.job()
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answer.read().decode()
    assert [metric.series for metric in METRICS if f"# HELP {metric.series} " not in text] == []
    assert 'medallion_table_rows{layer="gold",pipeline="shop",table="gold.by_day"} 2.0' in text
    assert 'medallion_query_restarts_total{layer="gold",pipeline="shop",table="gold.by_day"} 2.0' in text
    assert (
        'medallion_query_phase_seconds{layer="gold",phase="addBatch",pipeline="shop",table="gold.by_day"} 0.7'
        in text
    )
    assert (
        'medallion_query_time_to_loss_seconds{layer="gold",pipeline="shop",table="gold.by_day"} +Inf' in text
    )


@pytest.mark.parametrize("damage", [b"garbage", b'{"commitInfo": {"timest', b""])
def test_a_table_that_is_damaged_hides_no_other(client: Client, lived_in: LivedIn, damage: bytes) -> None:
    """The page, the metrics and the alerts of a pipeline must not end with one of its tables."""
    lived_in.job()
    client.get("/metrics").read()
    lived_in.gold(2)
    newest = max((Path(lived_in.layout.table_path("gold.by_day")) / "_delta_log").glob("*.json"))
    whole = newest.read_bytes()
    newest.write_bytes(damage)
    for viewer in (client, None):  # one that has read the table before, and one that has not
        live = Live(PIPELINE, lived_in.settings, lived_in.layout)
        with serving(build_app(live), listen("127.0.0.1:0")) as address:
            found = viewer or Client(address)
            time.sleep(1.1)
            tables = {one["table"]: one for one in found.json("/api/status")["tables"]}  # type: ignore[attr-defined]
            assert tables["silver.orders"]["rows"] == 8
            assert (tables["gold.by_day"]["rows"], tables["silver.orders"]["fault"]) == (None, "")
            assert "gold/by_day" in tables["gold.by_day"]["fault"]
            text = found.get("/metrics").read().decode()
            assert 'medallion_table_rows{layer="silver"' in text
            assert 'medallion_table_rows{layer="gold"' not in text
    newest.write_bytes(whole)
    time.sleep(1.1)
    assert 'medallion_table_rows{layer="gold"' in client.get("/metrics").read().decode()


def test_a_number_that_is_not_known_is_not_exported(client: Client) -> None:
    text = client.get("/metrics").read().decode()
    assert "medallion_broker_up{" in text
    assert 'medallion_query_lag_rows{layer="bronze"' not in text


def test_a_hostile_record_is_text_in_json(client: Client, lived_in: LivedIn) -> None:
    lived_in.quarantine({HOSTILE.encode(): "<b>bad</b>", b"\xff": "unreadable"})
    listed = client.json("/api/quarantine/silver.orders?reason=%3Cb%3Ebad%3C%2Fb%3E")["records"]
    assert isinstance(listed, list)
    assert [(one["topic"], one["partition"], one["offset"]) for one in listed] == [("orders", 0, 0)]
    assert "value" not in listed[0]
    answer = client.get("/api/quarantine/silver.orders/record?topic=orders&partition=0&offset=0")
    assert answer.headers["content-type"] == "application/json"
    (record,) = json.loads(answer.read())["records"]
    text = record["value"]["text"]
    assert text == HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\u001b")
    assert record["headers"][0]["text"] == "<b>x</b>"


def test_messages_of_errors_are_not_shown_where_records_are_not(tmp_path: Path) -> None:
    lived_in = LivedIn(tmp_path, http={"show_records": False})
    lived_in.caught_up()
    lived_in.job("failed", error="[USER_RAISED_EXCEPTION] no ann@shop.example")
    live = Live(PIPELINE, lived_in.settings, lived_in.layout)
    with serving(build_app(live), listen("127.0.0.1:0")) as address:
        client = Client(address)
        texts = [client.get(path).read().decode() for path in ("/readyz", "/api/status", "/metrics", "/")]
    assert "failed (USER_RAISED_EXCEPTION); medallion status says why" in texts[0]
    assert "failed (USER_RAISED_EXCEPTION); medallion status says why" in texts[1]
    assert "ann@shop.example" not in "".join(texts)


def test_records_are_not_shown_where_the_setting_is_off(tmp_path: Path) -> None:
    lived_in = LivedIn(tmp_path, http={"show_records": False})
    lived_in.quarantine({b"secret": "unreadable"})
    live = Live(PIPELINE, lived_in.settings, lived_in.layout)
    with serving(build_app(live), listen("127.0.0.1:0")) as address:
        client = Client(address)
        assert (
            client.get("/api/quarantine/silver.orders/record?topic=orders&partition=0&offset=0").status == 403
        )
        assert b"secret" not in client.get("/api/quarantine/silver.orders").read()
        assert 'content="no"' in client.get("/").read().decode()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/quarantine/silver.nothing", 400),
        ("/api/quarantine/silver.orders", 404),  # never written
        ("/api/quarantine/silver.orders?limit=x", 400),
        ("/api/quarantine/silver.orders/record?topic=a&partition=0;drop&offset=1", 400),
        (f"/api/quarantine/silver.orders/record?topic=a&partition=0&offset={10**19}", 400),
        ("/api/quarantine/silver.orders/record", 400),
        ("/api/history?span=year", 400),
        ("/static/../app.py", 404),
    ],
)
def test_a_wrong_request_gets_an_answer_in_words(client: Client, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status == status
    assert b"Traceback" not in answer.read()


def test_a_topic_name_with_quotes_is_a_text(client: Client, lived_in: LivedIn) -> None:
    lived_in.quarantine({b"x": "unreadable"})
    path = "/api/quarantine/silver.orders/record?topic=orders%27%20OR%201=1%20--&partition=0&offset=0"
    assert client.json(path) == {"records": []}


def test_history_has_a_point_per_minute(client: Client, lived_in: LivedIn) -> None:
    from datetime import timedelta

    path = lived_in.layout.table_path(HISTORY)
    assert client.json("/api/history?span=day")["queries"] == {}
    micro_batches.append(
        path, [row("gold.by_day", 6, timedelta(minutes=10)), row("gold.by_day", 9, timedelta(hours=5))]
    )
    found = client.json("/api/history?span=hour")
    queries = found["queries"]
    assert isinstance(queries, dict)
    (point,) = queries["gold.by_day"]
    assert (point["rows_per_second"], point["batch_ms"]) == (1.0, 900)
    assert int(str(found["from"])) % 60 == 0


def test_the_last_result_of_each_suite_is_shown(tmp_path: Path) -> None:
    """From ``quality.results``, whatever ran the suite; of two runs the newer one, and no value of a row."""
    lived_in = LivedIn(tmp_path)
    suites = [Quality("silver.orders", [NullShare("id")]), Quality("gold.by_day", [RowCount(1)])]
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)

    def judged(version: int, *, is_met: bool) -> SuiteResult:
        checked = (
            ExpectationResult("null_share", "id", is_met, "1 of 2 rows are null", failing_rows=1),
            ExpectationResult("unique", "id, at", is_met, "", severity="warn"),
            ExpectationResult("row_count", "", is_met=True, observed="observed 2"),
        )
        when = at + timedelta(minutes=version)
        return SuiteResult("silver.orders", version, 2, is_met, checked, at=when, engine="duckdb")

    results.append(lived_in.layout, "shop", [judged(6, is_met=True)])
    results.append(lived_in.layout, "shop", [judged(7, is_met=False)], reason="gate")
    live = Live(replace(PIPELINE, quality=suites), lived_in.settings, lived_in.layout)
    with serving(build_app(live), listen("127.0.0.1:0")) as address:
        assert Client(address).json("/api/quality") == {
            "suites": [
                {
                    "table": "silver.orders",
                    "version": 7,
                    "at": f"{at + timedelta(minutes=7):%Y-%m-%dT%H:%M:%S}.000Z",
                    "is_met": False,
                    "checked": 3,
                    "failed": ["null_share id"],
                    "warned": ["unique id, at"],
                }
            ]
        }


def test_another_sites_name_for_this_address_is_refused(client: Client) -> None:
    assert client.get("/api/status", Host="evil.example").status == 421
    assert client.get("/healthz", Host="localhost:8484").status == 200


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8484", ("127.0.0.1", 8484)),
        (":8484", ("127.0.0.1", 8484)),
        ("8484", ("127.0.0.1", 8484)),
        ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),  # noqa: S104  # parsed only
    ],
)
def test_an_address_without_a_host_is_loopback(text: str, found: tuple[str, int]) -> None:
    assert parse_address(text) == found


@pytest.mark.parametrize(
    ("host", "is_private"),
    [("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("192.168.1.7", False)],  # noqa: S104
)
def test_only_an_address_of_loopback_is_private(host: str, *, is_private: bool) -> None:
    listener: Any = SimpleNamespace(getsockname=lambda: (host, 8484))
    assert is_loopback(listener) == is_private


@pytest.mark.parametrize("text", ["", "localhost", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "a:b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match=r"write it like 127\.0\.0\.1:8484"):
        parse_address(text)


def test_a_used_address_is_refused_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressError, match=rf"127.0.0.1:{port}: another process listens there"):
            listen(f"127.0.0.1:{port}")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(AddressError, match="this machine does not have that address"):
        listen("192.0.2.1:8484")


def test_without_an_address_nothing_listens(lived_in: LivedIn) -> None:
    with page_of(PIPELINE, lived_in.settings, None) as address:
        assert address is None


def test_what_a_page_writes_of_alerts_is_its_owners_alone(tmp_path: Path) -> None:
    """The folder was created before the mask of the process was set: 0755, and 0644 in it."""
    before = os.umask(0o022)
    try:
        lived_in = LivedIn(tmp_path / "lake", alerts={"rules": {"dead": {"when": "query_dead"}}})
        with page_of(PIPELINE, lived_in.settings, "127.0.0.1:0"):
            deadline = time.monotonic() + 20
            while not (lived_in.layout.alerts / "state.json").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
    finally:
        os.umask(before)
    files = [lived_in.layout.alerts, *lived_in.layout.alerts.iterdir()]
    assert {file.name: oct(file.stat().st_mode & 0o077) for file in files} == {
        file.name: "0o0" for file in files
    }
    assert len(files) == 3


def test_the_address_is_free_again_at_the_end(lived_in: LivedIn) -> None:
    with page_of(PIPELINE, lived_in.settings, "127.0.0.1:0") as address:
        assert address is not None
        assert Client(address).get("/healthz").status == 200
    with listen(Client(address).host) as again:
        assert url(again) == address
