"""Producing: a true rate, bounds that hold, failures that are told, and captures replayed as they are.

Delivery runs against librdkafka's own in-process cluster; what a real broker keeps is tested in
tests/broker/bronze/test_produce.py.
"""

from __future__ import annotations

import gzip
import itertools
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.declare import Message, Pipeline, Topic
from common.errors import BrokerError, UsageError
from orchestration.access.kafka.capture_file import read_capture, read_keyed_capture
from orchestration.access.kafka.producer import SLICE_MESSAGES, Pace, Produced, produce
from orchestration.cli.access import produce as command

IN_PROCESS = {"test.mock.num.brokers": "1"}


def numbered() -> Iterator[Message]:
    """``0``, ``1``, ``2`` …; ten bytes each with their keys."""
    return (Message(b"key", b"%07d" % number) for number in itertools.count())


def sent_by(pace: Pace, moments: list[float]) -> list[int]:
    """How many have gone after each moment, when all that is due goes at once."""
    sent, totals = 0, []
    for elapsed in moments:
        while (due := pace.due(sent, elapsed)) > 0:
            sent += due
        totals.append(sent)
    return totals


def test_the_rate_is_kept_from_the_start_whatever_the_moments_are() -> None:
    moments = [0.0, 0.013, 0.5, 0.5, 7.001, 3600.0]
    assert sent_by(Pace(1000, None, None), moments) == [1, 14, 501, 501, 7002, 3_600_001]


def test_a_slow_rate_sends_its_first_message_at_once() -> None:
    assert sent_by(Pace(1, None, None), [0.0, 0.9, 1.0, 1.1]) == [1, 1, 2, 2]


def test_rate_times_seconds_messages_go_in_that_time() -> None:
    pace = Pace(100, None, 2.5)
    assert sent_by(pace, [1.0, 2.499, 9.0]) == [101, 250, 250]
    assert not pace.is_over(249, 2.5)
    assert pace.is_over(250, 2.49)
    assert pace.is_over(249, 2.76), "a broker that is too slow does not prolong it"


def test_the_smaller_of_count_and_seconds_ends_it() -> None:
    assert sent_by(Pace(100, 7, 2.5), [9.0]) == [7]
    assert sent_by(Pace(100, 900, 2.5), [9.0]) == [250]


def test_without_a_rate_a_slice_is_always_due() -> None:
    pace = Pace(None, None, 1.0)
    assert pace.due(12_345, 0.0) == SLICE_MESSAGES
    assert pace.rest(12_345, 0.0) == 0
    assert pace.is_over(12_345, 1.0)


def test_after_a_stall_the_clock_is_looked_at_between_slices() -> None:
    assert Pace(100_000, None, None).due(0, 10.0) == SLICE_MESSAGES


@pytest.mark.parametrize(("sent", "elapsed", "rest"), [(1, 0.0, 0.25), (100, 0.09, 0.01), (20, 0.0, 0.02)])
def test_it_rests_until_more_is_due_and_looks_up_four_times_a_second(
    sent: int, elapsed: float, rest: float
) -> None:
    assert Pace(1000 if sent > 1 else 1, None, None).rest(sent, elapsed) == pytest.approx(rest)


def test_count_messages_are_delivered_and_no_more_are_taken() -> None:
    source = numbered()
    done = produce(source, bootstrap_servers="none", topic="t", options=IN_PROCESS, count=4_321)
    assert (done.messages, done.bytes) == (4_321, 43_210)
    assert next(source).value == b"0004321"


def test_messages_that_end_end_it() -> None:
    few = [Message(None, b"a"), Message(b"k", None), Message(None, b"")]
    done = produce(few, bootstrap_servers="none", topic="t", options=IN_PROCESS, rate=1_000_000)
    assert (done.messages, done.bytes) == (3, 2)


def test_a_stop_ends_it_with_everything_delivered() -> None:
    stop = threading.Event()
    seen: list[Produced] = []

    def look(now: Produced) -> None:
        seen.append(now)
        stop.set()

    done = produce(
        numbered(),
        bootstrap_servers="none",
        topic="t",
        options=IN_PROCESS,
        rate=2_000,
        stop=stop,
        on_progress=look,
    )
    assert len(seen) == 1
    assert done.messages == seen[0].messages > 400


def test_messages_that_cannot_be_read_on_leave_the_rest_delivered() -> None:
    def broken() -> Iterator[Message]:
        yield Message(None, b"a")
        raise UsageError("line 2")

    with pytest.raises(UsageError, match="line 2"):
        produce(broken(), bootstrap_servers="none", topic="t", options=IN_PROCESS)


def test_a_broker_that_is_not_there_is_told_with_topic_address_and_reason() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(BrokerError, match=re.escape(f"Topic quakes at {address}")) as told:
            produce(
                numbered(),
                bootstrap_servers=address,
                topic="quakes",
                options={"message.timeout.ms": "500"},
                count=10,
            )
    assert "10 failed" in str(told.value)
    assert "Connection refused" in str(told.value)


def test_a_message_that_is_too_large_is_told_without_its_content() -> None:
    huge = [Message(b"secret", b"secret" * 3_000_000)]
    with pytest.raises(BrokerError, match="too large") as told:
        produce(huge, bootstrap_servers="none", topic="quakes", options=IN_PROCESS)
    assert "secret" not in str(told.value)


def test_an_option_of_the_java_client_alone_is_left_out() -> None:
    options = {**IN_PROCESS, "max.poll.records": "5"}
    assert produce(numbered(), bootstrap_servers="none", topic="t", options=options, count=1).messages == 1


def test_an_option_that_guards_the_connection_is_never_left_out() -> None:
    options = {**IN_PROCESS, "security.providers": "x"}
    with pytest.raises(BrokerError, match=r"security\.providers"):
        produce(numbered(), bootstrap_servers="none", topic="t", options=options, count=1)


LINES = b'{"a":{"id":"x"}}\n{"a":{"id":7}}\nno json\n\n{"a":3}\n[1]\n{"a":{"id":"\xc3\xa9"}} \r\nlast'
VALUES = [b'{"a":{"id":"x"}}', b'{"a":{"id":7}}', b"no json", b"", b'{"a":3}', b"[1]"]
VALUES += [b'{"a":{"id":"\xc3\xa9"}} \r', b"last"]


def test_a_capture_gives_its_lines_untouched(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"
    path.write_bytes(LINES)
    assert [message.value for message in read_capture(path)] == VALUES
    assert {message.key for message in read_capture(path)} == {None}


def test_a_compressed_capture_is_the_same_and_keys_come_from_a_field(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl.gz"
    path.write_bytes(gzip.compress(LINES))
    messages = list(read_capture(path, "a.id"))
    assert [message.value for message in messages] == VALUES
    keys = [message.key for message in messages]
    assert keys == [b"x", b"7", None, None, None, None, "é".encode(), None]


@pytest.mark.parametrize(
    ("field", "keys"),
    [("a.b", [b"1", b"2", b"3", None]), ("a.c.d", [None, b"4", None, None]), ("e", [None, None, None, b"5"])],
)
def test_a_dot_in_a_key_field_leads_into_an_object_or_is_part_of_a_name(
    tmp_path: Path, field: str, keys: list[bytes | None]
) -> None:
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b'{"a.b":1}\n{"a":{"b":2,"c.d":4}}\n{"a":{"b":3},"a.b":9}\n{"e":5}\n')
    assert [message.key for message in read_capture(path, field)] == keys
    messages = read_keyed_capture(path, field)
    assert [message.key for message in messages] == keys
    assert messages.keyless == keys.count(None)


@pytest.mark.parametrize(
    ("lines", "field", "told"),
    [
        (b'{"a":{"id":"x"},"n":1}\n' * 3, "a.idd", r"No message of .* such a field; did you mean 'a\.id'\?"),
        (b'{"n":1}\n' * 2000, "m", r"None of the first 1,000 messages of .* such a field; known: n"),
        (b"one\ntwo\n", "a", "No message of .* they are no JSON objects"),
    ],
)
def test_a_key_field_that_no_message_has_is_refused(
    tmp_path: Path, lines: bytes, field: str, told: str
) -> None:
    """Before anything is sent: without keys, messages of one thing are in no order."""
    path = tmp_path / "feed.jsonl"
    path.write_bytes(lines)
    with pytest.raises(UsageError, match=f"--key-field {field}: {told}"):
        command._messages(Topic("t"), path, field, None)


def test_a_capture_that_is_cut_off_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl.gz"
    path.write_bytes(gzip.compress(LINES)[:-12])
    with pytest.raises(UsageError, match=r"feed\.jsonl\.gz: cannot be read after line \d+"):
        list(read_capture(path))


@pytest.mark.parametrize(
    ("text", "rate"), [("max", None), ("0", None), ("1", 1), ("2500.5", 2500.5), ("1000000", 1e6)]
)
def test_a_rate_is_a_number_or_max(text: str, rate: float | None) -> None:
    assert command._rate(text) == rate


@pytest.mark.parametrize("text", ["-1", "0.5", "1000001", "fast", "", "nan", "inf"])
def test_any_other_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--rate"):
        command._rate(text)


def test_the_only_topic_with_a_sample_is_meant_when_none_is_named() -> None:
    sampled = Topic("b", topics=["b.v1"], sample=lambda seed: numbered())
    pipeline = Pipeline("p", bronze=[Topic("a"), sampled])
    assert command._target(pipeline, None, is_sample=True) == (sampled, "b.v1")
    with pytest.raises(UsageError, match="--topic"):
        command._target(pipeline, None, is_sample=False)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("orders", ("orders", "shop.orders")),
        ("bronze.orders", ("orders", "shop.orders")),
        ("shop.orders", ("orders", "shop.orders")),
        ("two", ("both", "two")),
        ("log-eu", ("logs", "log-eu")),
    ],
)
def test_a_topic_is_named_as_table_or_topic(name: str, chosen: tuple[str, str]) -> None:
    table, topic = command._target(_shop(), name, is_sample=True)
    assert (table.name, topic) == chosen


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("shop.order", "did you mean 'shop.orders'?"),
        ("both", "one, two"),
        ("logs", "all that match log-"),
    ],
)
def test_a_name_that_is_not_one_topic_is_refused(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        command._target(_shop(), name, is_sample=True)


def _shop() -> Pipeline:
    return Pipeline(
        "shop",
        bronze=[
            Topic("orders", topics=["shop.orders"]),
            Topic("both", topics=["one", "two"]),
            Topic("logs", pattern="log-.*"),
        ],
    )


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    table = Topic("t", sample=lambda seed: numbered())
    with pytest.raises(UsageError, match="--seed"):
        command._messages(table, tmp_path / "f", None, 7)
    with pytest.raises(UsageError, match="--key-field"):
        command._messages(table, None, "a.b", None)
    with pytest.raises(UsageError, match="no such file"):
        command._messages(table, tmp_path / "g", None, None)
    with pytest.raises(UsageError, match="no sample data"):
        command._messages(Topic("t"), None, None, None)
