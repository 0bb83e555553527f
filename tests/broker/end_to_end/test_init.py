"""``medallion init`` on a real topic: what it writes passes the check, and every value sampled is read."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.declare import Message
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.check.pipeline import check
from orchestration.author.propose.pipeline_source import render
from orchestration.author.propose.propose import propose
from tests.conftest import make_settings
from tests.support.documents import printed_documents as documents
from tests.support.engine import Engine

ROOT = Path(__file__).parents[3]
_OF_POISON = {
    *("malformed_json", "empty_value", "not_utf8", "not_an_object", "wrong_type", "missing_required"),
    *("trailing_data", "null_key", "null_event_time", "future_event_time"),
}
EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"


def quakes(count: int) -> list[Message]:
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return list(itertools.islice(sample(7), count))


@pytest.mark.long
def test_a_proposed_pipeline_runs_over_its_topic(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    sent = quakes(3_000)
    send(topic, sent)
    file = tmp_path / "made.py"
    words = ["init", "--topic", topic, "--output", str(file), "--set", f"kafka.bootstrap_servers={broker}"]
    run = [sys.executable, "-m", "orchestration", *words]
    text = subprocess.check_output([*run, "--json", "--samples", "900"], cwd=ROOT, text=True)
    told = documents.printed(words, text)
    (about,) = told["topics"]
    assert 800 <= about["messages"] <= 900
    assert about["format"] == "json"
    again = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    engine = Engine(spark, pipeline, make_settings(tmp_path, broker), broker)
    engine.run("bronze", "silver")
    rows, aside = engine.rows(f"silver.{topic}"), engine.rows(f"silver.{topic}__quarantine")
    faults = Counter(reason for row in aside for reason in row["reasons"])
    assert 0 < len(aside) < 60, faults
    assert set(faults) <= _OF_POISON
    bad = {row["value"] for row in aside}
    good = [json.loads(each.value) for each in sent if each.value is not None and each.value not in bad]
    assert about["key"] == ["id", "time", "updated"]
    came = [(row["id"], _millis(row["time"]), _millis(row["updated"])) for row in rows]
    assert len(came) == len(set(came))
    assert set(came) == {
        (each["id"], each["properties"]["time"], each["properties"]["updated"]) for each in good
    }


def _millis(at: dt.datetime) -> int:
    return round(at.timestamp() * 1000)


@pytest.mark.long
def test_every_value_sampled_passes(spark: Any, tmp_path: Path) -> None:
    from silver.read.value_reader import read_values

    chance = random.Random(11)  # noqa: S311  # a repeatable one
    for turn in range(8):
        values = [json.dumps(_document(chance), ensure_ascii=bool(turn % 2)).encode() for _ in range(60)]
        values += [b'{"big": 123456789012345678901234567890, "n": 1.10, "e": 1E+2}', b'{"n": -0}'] * (
            turn % 3
        )
        made = propose("t", [Sampled(0, 0, value) for value in values])
        file = tmp_path / f"made{turn}.py"
        file.write_text(render("made", [made]))
        frame = spark.createDataFrame([(value,) for value in values], "value binary")
        found = read_values(frame, load_pipeline(file).silver[0].value).frame
        bad = found.where("__read.fault is not null").select("__read.fault", "__read.fault_field").collect()
        assert bad == [], file.read_text()


def _document(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    return {
        name: _value(chance, depth, name)
        for name in chance.sample(["id", "time", "order", "a b", "ü", "n", "at", "x`y", "nested"], 6)
    }


def _value(chance: random.Random, depth: int, name: str) -> Any:
    if name == "nested" and depth < 3:
        return _document(chance, depth + 1)
    choices: list[Any] = {
        "id": [chance.randrange(2**63), -1],
        "time": ["2026-01-31T10:00:00Z", "2026-01-31 10:00:00.5+13:00"],
        "at": [1_700_000_000_000, None],
        "order": ["2026-01-31", "0001-01-01"],
        "n": [chance.random(), chance.randrange(10**18), 10**25, 0.1],
    }.get(name, ["", "\U0001f600", 1, True, None, [1, "a"], [], {"q": 1.5}, 1e300, "2026-13-01"])
    return chance.choice(choices)
