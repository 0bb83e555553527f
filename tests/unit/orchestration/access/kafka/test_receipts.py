"""The format of receipts: digests by another program, spans, signatures, and what is no receipt."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from orchestration.access.kafka.receipts import MOST_RECORDS, Collector, Receipt, joint_digest, record_digest


def test_digests_are_those_of_the_documented_text() -> None:
    assert record_digest(b"k\n", None) == hashlib.sha256(b"6B0A:-").hexdigest()
    assert record_digest(None, b"") == hashlib.sha256(b"-:").hexdigest()
    one, two = record_digest(b"a", b"1"), record_digest(b"b", b"2")
    assert joint_digest([one, two]) == hashlib.sha256((one + two).encode()).hexdigest()


def test_a_receipt_names_the_offsets_of_its_producer_in_order() -> None:
    collector = Collector("id", "p")
    for offset in (7, 5, 6, 9, 12):  # acknowledged in any order
        collector.acknowledged("orders", 3, offset, f"{offset:02}")
    assert list(collector.receipts(is_end=False)) == []
    (found,) = collector.receipts(is_end=True)
    digest = hashlib.sha256(b"0506070912").hexdigest()
    assert found == Receipt("orders", 3, ((5, 7), (9, 9), (12, 12)), digest, "p", "id")
    assert found.records == 5
    assert list(collector.receipts(is_end=True)) == []


def test_many_records_are_several_receipts() -> None:
    collector = Collector()
    for offset in range(MOST_RECORDS + 1):
        collector.acknowledged("orders", 0, offset, "0")
    assert [one.offsets for one in collector.receipts(is_end=False)] == [
        ((0, MOST_RECORDS - 1),),
        ((MOST_RECORDS, MOST_RECORDS),),
    ]


def test_a_receipt_is_read_as_it_was_written_and_signed_by_one_key() -> None:
    receipt = Receipt("orders", 3, ((5, 7), (9, 9)), "ab" * 32, "p", "id")
    signed = receipt.with_signature("secret")
    assert Receipt.parse(receipt.message()[1]) == receipt
    assert Receipt.parse(signed.message()[1]) == signed
    assert signed.is_signed_by("secret")
    assert not signed.is_signed_by("another")
    assert not receipt.is_signed_by("secret")
    changed = json.loads(signed.message()[1]) | {"sha256": "cd" * 32}
    assert not Receipt.parse(json.dumps(changed).encode()).is_signed_by("secret")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "its version is not 1"),
        ({"records": 5}, "it counts 5 records, and names 4 offsets"),
        ({"offsets": []}, "its offsets are not in order"),
        ({"offsets": [[9, 9], [5, 7]]}, "its offsets are not in order"),
        ({"offsets": [[5, 7], [7, 9]]}, "its offsets are not in order"),
        ({"offsets": [[7, 5]]}, "its offsets are not in order"),
        ({"offsets": [[-1, 2]]}, "its offsets are not in order"),
        ({"offsets": [5, 7]}, "of another type"),
        ({"partition": None}, "of another type"),
        ({"sha256": ...}, "'sha256' is missing"),
    ],
)
def test_what_is_no_receipt_says_why(change: dict[str, Any], says: str) -> None:
    document = json.loads(Receipt("orders", 3, ((5, 7), (9, 9)), "ab" * 32, "p").message()[1]) | change
    left = {name: value for name, value in document.items() if value is not ...}
    with pytest.raises(ValueError, match=says):
        Receipt.parse(json.dumps(left).encode())


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b"\xff", b'"version"', b"1"])
def test_bytes_that_are_no_document_are_no_receipt(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json's and our own
        Receipt.parse(value)
