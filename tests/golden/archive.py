"""What a golden archive holds, how it is unpacked, and how tables and checkpoints are read to be compared.

Nothing here imports the product: an archive must be readable whatever has moved since it was written.

An archive is a compressed tar of
``pipeline.py``     the declaration that the copy was written by,
``messages.json``   the rounds of messages before and after the copy,
``manifest.json``   the version and commit of the code, and the ``State`` of all tables and checkpoints,
``golden/…``        the pipeline's folder under ``data_dir``, without leases and logs.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

FOLDER = Path(__file__).parent
SUFFIX = ".tar.xz"
PIPELINE, MESSAGES, MANIFEST = "pipeline.py", "messages.json", "manifest.json"
LEFT_OUT = {"_leases", "leases", "log", "spark-warehouse"}
"""Folders of processes that have ended; none has a table or a position in it."""

OF_THE_RUN = {"_ingested_at", "ingested_at"}
"""Columns that say when a micro-batch ran: no two runs have the same."""

_COMMIT = re.compile(r"\d{20}\.json")
_SECONDS = 60.0


@dataclass(frozen=True)
class Query:
    """Where a query's checkpoint stands: the query's id, and its last finished micro-batch."""

    id: str
    batch: int


@dataclass(frozen=True)
class State:
    """Tables and checkpoints at one moment.

    Attributes:
        rows: By table: its rows as JSON texts, sorted.
        versions: By table: its newest version.
        queries: By query: where its checkpoint stands.
    """

    rows: Mapping[str, Sequence[str]]
    versions: Mapping[str, int]
    queries: Mapping[str, Query]


def state(root: Path) -> State:
    """The state of a pipeline's folder."""
    tables = {name: DeltaTable(path) for name, path in table_paths(root).items()}
    return State(
        {name: rows(table) for name, table in tables.items()},
        {name: table.version() for name, table in tables.items()},
        {path.name: query(path) for path in sorted((root / "checkpoints").iterdir())},
    )


def table_paths(root: Path) -> dict[str, Path]:
    """Folders of the pipeline's tables, by the table's full name; ``ops`` tells of jobs, not of events."""
    found = [
        log for log in sorted((root / "tables").glob("*/*/_delta_log")) if log.parent.parent.name != "ops"
    ]
    return {f"{log.parent.parent.name}.{log.parent.name}": log.parent for log in found}


def rows(table: DeltaTable) -> list[str]:
    """A table's rows as JSON texts in an order of their own."""
    found: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return sorted(
        json.dumps({k: v for k, v in row.items() if k not in OF_THE_RUN}, default=_text, ensure_ascii=False)
        for row in found
    )


def query(checkpoint: Path) -> Query:
    """Where a checkpoint stands."""
    done = [int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit()]
    return Query(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"], max(done))


def commits(path: Path) -> dict[str, bytes]:
    """A table's commit files, by name."""
    files = (path / "_delta_log").iterdir()
    return {file.name: file.read_bytes() for file in sorted(files) if _COMMIT.fullmatch(file.name)}


def own_commits(path: Path) -> Iterator[dict[str, Any]]:
    """What the engine's commits say of themselves, oldest first."""
    for content in commits(path).values():
        for line in content.splitlines():
            told = json.loads(line).get("commitInfo", {}).get("userMetadata")
            if told is not None:
                yield json.loads(told)


def files_with(root: Path, text: str) -> list[str]:
    """Names of the files of an archive that contain a text."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        paths = [Path(folder, name) for name in files]
        found += [str(path.relative_to(root)) for path in paths if text.encode() in path.read_bytes()]
    return found


def pack(root: Path, pipeline: Path, manifest: Mapping[str, Any], messages: Any, target: Path) -> None:
    """Write an archive of a pipeline's folder."""
    beside = target.with_suffix(".parts")
    beside.mkdir()
    parts = {MANIFEST: manifest, MESSAGES: messages}
    for name, content in parts.items():
        (beside / name).write_text(json.dumps(content, indent=1, default=asdict), encoding="utf-8")
    with tarfile.open(target, "w:xz", preset=9) as tar:
        for name in parts:
            tar.add(beside / name, name, filter=_anonymous)
            (beside / name).unlink()
        tar.add(pipeline, PIPELINE, filter=_anonymous)
        tar.add(root, root.name, filter=_anonymous)
    beside.rmdir()


def unpack(archive: Path, folder: Path) -> dict[str, Any]:
    """Unpack an archive, and return its manifest.

    Files get ages as if the copy had been written a moment ago: what Delta and Spark do to files that are
    weeks old is not what the archives are about, and would depend on the day of the test.
    """
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    files = [file for file in folder.rglob("*") if file.is_file()]
    younger = time.time() - 1 - max(file.stat().st_mtime for file in files)
    for file in files:
        moment = file.stat().st_mtime + younger
        os.utime(file, (moment, moment))
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    told = manifest["state"]
    told["queries"] = {name: Query(**facts) for name, facts in told["queries"].items()}
    return {**manifest, "state": State(**told)}


def make_topics(broker: str, partitions: Mapping[str, int]) -> None:
    """Make topics anew, empty; those of the same names are deleted."""
    client = AdminClient({"bootstrap.servers": broker})
    there = [name for name in partitions if name in client.list_topics(timeout=_SECONDS).topics]
    for done in client.delete_topics(there).values() if there else ():
        done.result(_SECONDS)
    # Messages have times of their own: without end, so that retention takes none of them away.
    options = {"retention.ms": "-1"}
    topics = [NewTopic(name, number, 1, config=options) for name, number in partitions.items()]
    deadline = time.monotonic() + _SECONDS
    while topics:
        made = client.create_topics(topics)
        topics = [topic for topic in topics if not _is_made(made[topic.topic])]
        assert time.monotonic() < deadline, f"topics cannot be made: {topics}"
        time.sleep(0.1)


def _is_made(done: Any) -> bool:
    try:
        done.result(_SECONDS)
    except KafkaException as error:
        if "TOPIC_ALREADY_EXISTS" not in str(error):
            raise
        return False  # its deletion is not done yet
    return True


def topic_ids(root: Path) -> dict[str, str]:
    """The ids of the topics that bronze has read, by the topic's name; versions before 0.2.0 name none."""
    return {
        name: topic["id"]
        for path in table_paths(root).values()
        for told in own_commits(path)
        for name, topic in told.get("topics", {}).items()
    }


def send(broker: str, messages: Sequence[Mapping[str, Any]]) -> None:
    """Produce messages, in order, each to its partition and with its time."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 5})
    failures: list[object] = []
    for message in messages:
        value = message["value"]
        producer.produce(
            message["topic"],
            key=message["key"].encode(),
            value=None if value is None else value.encode(),
            partition=message["partition"],
            timestamp=message["timestamp"],
            on_delivery=lambda error, _: error and failures.append(error),
        )
    assert producer.flush(_SECONDS) == 0
    assert failures == []


def received(broker: str, topic: str) -> list[str]:
    """Keys and values of all messages of a topic with one partition, in order."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "none", "enable.auto.commit": False})
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_SECONDS)
    consumer.assign([TopicPartition(topic, 0, low)])
    found = []
    for _ in range(high - low):
        message = consumer.poll(_SECONDS)
        assert message is not None
        assert message.error() is None
        found.append(f"{message.key().decode()}: {message.value().decode()}")
    consumer.close()
    return found


def _text(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.rpartition("/")[2] in LEFT_OUT:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
