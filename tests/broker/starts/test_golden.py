"""Tables and checkpoints that released versions wrote go on under the code of today.

See tests/golden/README.md.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from deltalake import DeltaTable

from common import declare
from common.declare import Pipeline
from orchestration.access.kafka import topic_state
from tests.conftest import make_settings
from tests.golden import archive
from tests.golden.archive import State
from tests.support.engine import Engine

pytestmark = pytest.mark.timeout(1200)
"""The first test of an archive waits for its whole life, twice: minutes beside other workers."""

ARCHIVES = sorted(archive.FOLDER.glob(f"*{archive.SUFFIX}"))
PUBLISHED = "golden_published"
GOLD_AT_ONCE = "gold.max_files_per_trigger=200"
MODES: Mapping[Any, Sequence[str]] = {
    declare.Silver: ("dedupe", "keep", "late", "tombstones"),
    declare.Aggregate: ("mode",),
    declare.Join: ("mode",),
}
"""Fields whose values make queries of different kinds."""


def load(file: Path) -> Pipeline:
    """The pipeline of a file."""
    spec = importlib.util.spec_from_file_location(f"golden_{file.parent.name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Pipeline = module.pipeline
    return found


@dataclass(frozen=True)
class Ran:
    """What an archive's tables and checkpoints were, and became.

    Attributes:
        messages: The rounds of messages ``before`` and ``after`` the copy.
        engine: Today's code over the archive's tables.
        archived: As they were unpacked.
        told: As the code that wrote them saw them.
        started: After a run with nothing new to read.
        last: After a run over the messages that came later.
        commits: By table: the commit files as they were unpacked.
        fresh: What a pipeline that read all messages from the start has.
        published: Messages that were published since the copy.
    """

    messages: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
    engine: Engine
    archived: State
    told: State
    started: State
    last: State
    commits: Mapping[str, Mapping[str, bytes]]
    fresh: State
    published: Sequence[str]

    @property
    def root(self) -> Path:
        """Folder of the pipeline."""
        return self.engine.checkpoint("").parent

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows of a table after the last run."""
        return [json.loads(row) for row in self.last.rows[table]]

    def values(self, table: str, *columns: str) -> Counter[tuple[Any, ...]]:
        """Some columns of a table's rows after the last run."""
        return Counter(tuple(row[name] for name in columns) for row in self.rows(table))


def state_from_the_start(
    spark: Any, broker: str, pipeline: Pipeline, folder: Path, overrides: Sequence[str]
) -> State:
    """What the code of today makes of all messages.

    Gold without a watermark reads all of silver in one micro-batch: its rows do not depend on micro-batches.
    """
    with_watermark = [
        gold
        for gold in pipeline.gold
        if getattr(gold, "watermark", None) is not None or getattr(gold, "within", None) is not None
    ]
    others = [gold for gold in pipeline.gold if gold not in with_watermark]
    settings = make_settings(folder, broker, *overrides)
    Engine(spark, replace(pipeline, gold=with_watermark, publish=()), settings, broker).run()
    at_once = make_settings(folder, broker, *overrides, GOLD_AT_ONCE)
    Engine(spark, replace(pipeline, gold=others, publish=()), at_once, broker).run("gold")
    return archive.state(settings.data_dir / pipeline.name)


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda file: file.name.removesuffix(archive.SUFFIX))
def ran(request: pytest.FixtureRequest, spark: Any, broker: str, tmp_path_factory: Any) -> Iterator[Ran]:
    """The archive's pipeline under today's code, and the same one from the start."""
    with pytest.MonkeyPatch.context() as patch:
        yield _ran(request.param, spark, broker, tmp_path_factory, patch)


def keep_topic_ids(ids: Mapping[str, str], patch: pytest.MonkeyPatch) -> None:
    """Let topics that were made again have the ids that bronze has read.

    A user who upgrades has the same topics; the broker gives those of an archive other ids.
    """
    described = topic_state._described

    def with_ids(*args: Any) -> dict[str, tuple[str, list[int]]]:
        return {name: (ids.get(name, new), places) for name, (new, places) in described(*args).items()}

    patch.setattr(topic_state, "_described", with_ids)


def _ran(file: Path, spark: Any, broker: str, tmp_path_factory: Any, patch: pytest.MonkeyPatch) -> Ran:
    folder: Path = tmp_path_factory.mktemp("golden")
    manifest = archive.unpack(file, folder)
    messages = json.loads((folder / archive.MESSAGES).read_text(encoding="utf-8"))
    pipeline = load(folder / archive.PIPELINE)
    # A watermark of the archive makes the late rows late, so gold may read the new rounds at once.
    settings = make_settings(folder, broker, *manifest["settings"], GOLD_AT_ONCE)
    root = settings.data_dir / pipeline.name
    root.parent.mkdir()
    shutil.move(folder / pipeline.name, root)
    archived = archive.state(root)
    commits = {name: archive.commits(path) for name, path in archive.table_paths(root).items()}

    archive.make_topics(broker, messages["topics"])
    keep_topic_ids(archive.topic_ids(root), patch)
    for round_ in messages["before"]:
        archive.send(broker, round_)
    engine, states = Engine(spark, pipeline, settings, broker), []
    for rounds in ([], messages["after"]):
        for round_ in rounds:
            archive.send(broker, round_)
        engine.run()
        engine.publish()
        states.append(archive.state(root))

    beside = tmp_path_factory.mktemp("fresh")
    fresh = state_from_the_start(spark, broker, pipeline, beside, manifest["settings"])
    started, last = states
    return Ran(
        messages,
        engine,
        archived,
        manifest["state"],
        started,
        last,
        commits,
        fresh,
        archive.received(broker, PUBLISHED),
    )


@pytest.mark.long
def test_a_start_with_nothing_to_read_writes_nothing(ran: Ran) -> None:
    """No replay: the same rows, versions, queries and micro-batches as when the archive was written."""
    assert ran.archived == ran.told
    assert ran.started == ran.told


@pytest.mark.long
def test_every_query_goes_on_where_its_checkpoint_stands(ran: Ran) -> None:
    """The same query with later micro-batches, and later versions of the same tables."""
    assert ran.last.queries.keys() == ran.told.queries.keys()
    for name, query in ran.told.queries.items():
        assert ran.last.queries[name].id == query.id, name
        assert ran.last.queries[name].batch > query.batch, name
    assert ran.last.versions.keys() == ran.told.versions.keys()
    for name, version in ran.told.versions.items():
        # Not every round has rows for each of the tables beside a query's own.
        assert ran.last.versions[name] >= version + ("__" not in name), name


@pytest.mark.long
def test_commits_of_before_are_untouched(ran: Ran) -> None:
    for name, path in archive.table_paths(ran.root).items():
        now = archive.commits(path)
        assert {file: now.get(file) for file in ran.commits[name]} == ran.commits[name], name


@pytest.mark.long
def test_no_micro_batch_is_written_twice(ran: Ran) -> None:
    batches = 0
    for name, path in archive.table_paths(ran.root).items():
        steps = Counter(
            (told["query_id"], told["batch_id"], told.get("step"))
            for told in archive.own_commits(path)
            if "query_id" in told
        )
        assert {step: times for step, times in steps.items() if times > 1} == {}, name
        batches += len(steps)
    assert batches > 0


@pytest.mark.long
def test_tables_equal_those_of_a_pipeline_that_read_all_from_the_start(ran: Ran) -> None:
    """All but those of a processor, which sees the rows of a key by micro-batch."""
    assert ran.last.rows.keys() == ran.fresh.rows.keys()
    own_code = {gold.table for gold in ran.engine.pipeline.gold if isinstance(gold, declare.Stateful)}
    for name in ran.fresh.rows.keys() - own_code:
        assert ran.last.rows[name] == ran.fresh.rows[name], name


@pytest.mark.long
def test_a_processor_went_on_with_its_state(ran: Ran) -> None:
    """Each third order of a country, in the order of its micro-batches, those before and after the copy."""
    if "gold.third_orders" not in ran.last.rows:
        pytest.skip("the archive has no processor")
    paths = archive.table_paths(ran.root)
    seen: Counter[str] = Counter()
    third, read = [], 0
    for told in archive.own_commits(paths["gold.third_orders"]):
        read, began = _end(told["positions"][0]), read
        for row in sorted(_rows_between(paths["silver.orders"], began, read), key=_in_topic):
            seen[row["country"]] += 1
            if seen[row["country"]] % 3 == 0:
                third.append((row["country"], row["order_id"]))
    assert ran.values("gold.third_orders", "country", "order_id") == Counter(third)
    assert read == ran.last.versions["silver.orders"] + 1


def _end(position: Mapping[str, Any]) -> int:
    """The first version of a table that a micro-batch has not read; it has read whole versions."""
    return int(position["reservoirVersion"]) + (position["index"] >= 0)


def _rows_between(path: Path, began: int, end: int) -> Iterator[dict[str, Any]]:
    """The rows that versions of a table have added; none has deleted any."""

    def rows(version: int) -> Counter[str]:
        if version < 0:
            return Counter()
        return Counter(archive.rows(DeltaTable(path, version=version)))

    return (json.loads(row) for row in (rows(end - 1) - rows(began - 1)).elements())


def _in_topic(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A processor without an ``event_time`` sees the rows of a micro-batch in this order."""
    return row["_kafka_timestamp"], row["_kafka_partition"], row["_kafka_offset"]


@pytest.mark.long
def test_what_came_later_joins_what_was_there(ran: Ran) -> None:
    """A few rows in full: new keys, later and older versions of old keys, deletes, late rows, repeats."""
    newest = {
        ("o1", "shipped"),  # older versions came before the copy
        ("o2", "shipped"),
        ("o3", "deleted"),
        ("o4", "new"),
        ("o5", "new"),  # deleted before the copy, and new again
        ("o6", "paid"),
        ("o10", "shipped"),
        ("o11", "new"),  # late, and sent again after the copy
        ("o12", "paid"),
        ("o13", "paid"),  # new after the copy
        ("o14", "new"),
        ("o15", "paid"),
    }
    assert ran.values("gold.latest", "order_id", "state") == Counter(newest)
    assert ran.values("gold.living", "order_id", "state") == Counter(newest - {("o3", "deleted")})
    assert {order for (order,) in ran.values("gold.kept", "order_id")} == {
        order for order, _ in newest if order not in {"o4", "o6"}
    } | {"o8", "o17", "o18"}
    assert ran.values("gold.customers", "customer_id", "name") == Counter(
        {
            ("c1", "Ada L."),
            ("c2", "Benoit"),
            ("c3", "Cleo"),
            ("c4", "Dora"),
            ("c5", "Enzo"),
            ("c6", "Finn again"),
        }
    )
    late = ran.values("silver.orders__late", "order_id")
    assert {"o11", "o15"} <= {order for (order,) in late}
    assert ran.values("silver.orders", "order_id")["o11",] == 1
    assert {"method", "tip"} <= ran.rows("silver.payments")[0].keys()
    assert {row["_rescued"] for row in ran.rows("silver.current")} == {None, '{"gift":true}'}
    assert ran.values("gold.states", "order_id", "state", "is_current")["o10", "shipped", True] == 1


@pytest.mark.long
def test_elements_that_came_later_join_those_that_were_there(ran: Ran) -> None:
    """Of each basket and sku the first line that no rule refuses, a late one too."""
    if "silver.lines" not in ran.last.rows:
        pytest.skip("the archive has no table with a row per element")
    assert ran.values("gold.packed", "sku", "number") == Counter([("pen", 26), ("ink", 17), ("cup", 15)])
    late = ran.values("silver.lines__late", "basket", "sku", "_element")
    assert late == Counter([("b9", "pen", 0)])
    assert ran.values("silver.lines__quarantine", "offset", "element") == Counter(
        [(0, 1), (0, 2), (0, 4), (2, None), (5, 1), (8, 0), (10, 1), (13, 1), (14, None)]
    )


@pytest.mark.long
def test_records_of_several_tables_that_came_later_join_those_that_were_there(ran: Ran) -> None:
    """Of each order and moment the first record of either topic; a late one, too."""
    if "silver.moments" not in ran.last.rows:
        pytest.skip("the archive has no table of several bronze tables")
    first: dict[tuple[str, str], str] = {}
    for message in (
        one for rounds in ("before", "after") for round_ in ran.messages[rounds] for one in round_
    ):
        value = message["value"] or ""
        if message["topic"] in {"golden_orders", "golden_payments"} and value.endswith("}"):
            sent = json.loads(value)
            at = datetime.fromisoformat(sent["at"])
            first.setdefault((sent.get("id") or sent["order"], str(at)), message["topic"])
    assert ran.values("silver.moments", "order_id", "moment", "way") == Counter(
        (order, at, topic) for (order, at), topic in first.items()
    )
    late = ran.values("silver.moments__late", "order_id", "way")
    # Payments held the watermark of both back when the order came first; it was late when it came again.
    assert late["o11", "golden_orders"] == 1
    assert late["o9", "golden_payments"] == 1


@pytest.mark.long
def test_each_change_is_published_once(ran: Ran, spark: Any) -> None:
    """What was published later is what has changed since the copy; nothing of before is sent again."""
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingVersion", ran.told.versions["gold.latest"] + 1)
    changes = feed.load(ran.engine.path("gold.latest")).where("_change_type <> 'update_preimage'")
    columns = ("order_id", "state", "_change_type")
    sent = [json.loads(message.partition(": ")[2]) for message in ran.published]
    assert Counter(tuple(row[name] for name in columns) for row in sent) == Counter(
        map(tuple, changes.select(*columns).collect())
    )
    assert sent


@pytest.mark.long
def test_the_audit_finds_no_fault(ran: Ran) -> None:
    for number, silver in enumerate(ran.engine.pipeline.silver):
        assert ran.engine.faults(number) == (), silver.table


def test_an_archive_is_there_for_the_version_of_the_code() -> None:
    file = archive.FOLDER.parents[1] / "pyproject.toml"
    version = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["version"]
    assert [one for one in ARCHIVES if one.name == f"{version}{archive.SUFFIX}"]


def test_the_golden_pipeline_has_every_kind_of_query() -> None:
    """A new kind, or a new mode of one, belongs in the pipeline that the next archive is written by."""
    pipeline = load(archive.FOLDER / archive.PIPELINE)
    assert {type(gold) for gold in pipeline.gold} == set(get_args(declare.Gold))
    declared = [*pipeline.silver, *pipeline.gold]
    for kind, names in MODES.items():
        tables = [table for table in declared if isinstance(table, kind)]
        for name in names:
            assert {getattr(table, name) for table in tables} == set(choices(kind, name)), (kind, name)
    assert any(len(silver.sources) > 1 for silver in pipeline.silver)
    assert any(silver.each is not None for silver in pipeline.silver)
    assert {type(publish.to) for publish in pipeline.publish} == set(choices(declare.Publish, "to"))


def choices(kind: Any, name: str) -> tuple[Any, ...]:
    """The values, or the types, that a field of a declaration may have."""
    return get_args(get_type_hints(kind)[name])
