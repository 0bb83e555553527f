"""Reads the page, the metrics and the health of a running process by its address."""

from __future__ import annotations

import json
import re
from collections import Counter
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import Command


def address(command: Command) -> str:
    """The address that a command has printed for its page."""
    command.await_stderr("page at http://")
    found = re.search(r"page at (http://\S+)", command.stderr)
    assert found is not None
    return found[1]


def get(page: str, path: str) -> tuple[int, str]:
    """Status and text of an answer."""
    try:
        with urlopen(f"{page}{path}", timeout=30) as answer:  # noqa: S310  # our own address
            return int(answer.status), answer.read().decode()
    except HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def samples(page: str) -> dict[tuple[str, str], float]:
    """The metrics of a page, by name and labels; no sample is exported twice."""
    families = text_string_to_metric_families(get(page, "metrics")[1])
    found = [
        (one.name, json.dumps(one.labels, sort_keys=True), one.value) for f in families for one in f.samples
    ]
    assert max(Counter((name, labels) for name, labels, _ in found).values()) == 1
    return {(name, labels): value for name, labels, value in found}


def of_tables(page: str, metric: str) -> dict[str, float]:
    """The values of a metric by table."""
    return {
        json.loads(labels)["table"]: value
        for (name, labels), value in samples(page).items()
        if name == metric
    }


def states(page: str) -> dict[str, str]:
    """What each query does now, by table."""
    return {one["table"]: one["query"]["state"] for one in json.loads(get(page, "api/status")[1])["tables"]}


def unready(page: str) -> set[str]:
    """The tables that `/readyz` names; none if the process is ready."""
    code, text = get(page, "readyz")
    assert code == (200 if text == "ready\n" else 503), text
    return {line.partition(":")[0] for line in text.splitlines()} - {"ready"}


def pipeline_metric(page: str, metric: str) -> float | None:
    """The value of a metric of the whole pipeline; None if it is not known."""
    return next((value for (name, _), value in samples(page).items() if name == metric), None)


def seen(page: str) -> dict[str, str]:
    """How grave the page says each table is, and ``""`` for the pipeline; none if nobody need look."""
    return {one["table"]: one["severity"] for one in json.loads(get(page, "api/status")[1])["problems"]}


def raised(page: str) -> list[tuple[str, str]]:
    """Rule and table of the raised alerts."""
    alerts = json.loads(get(page, "api/status")[1])["alerts"]
    return [] if alerts is None else [(one["rule"], one["table"]) for one in alerts["raised"]]
