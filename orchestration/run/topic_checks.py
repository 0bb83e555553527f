"""Checks that the topics on the broker are those that bronze has read: at every start, and while a job runs.

Spark compares offsets only: of a topic that was deleted and created again it leaves out what lies before the
offset that it has reached, without an error. The commits of bronze name the topics' ids.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from common.config.paths import Layout
from common.config.references import resolve_secret
from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.micro_batch import MicroBatch
from common.errors import BrokerAwayError, BrokerError, BrokerStoppedError, MedallionError, TopicChangedError
from common.machine.console import say
from common.streaming.topic_identity import (
    BrokerTopic,
    TopicIdentity,
    TopicState,
    last_record_note,
    read_ends,
    recorded_topics,
)
from orchestration.access.embedded_broker import lifecycle
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.receipts_topic import GivenReceipts, read_receipts
from orchestration.access.kafka.topic_state import broker_topics, topic_ids
from orchestration.access.progress.set_back import RecordWatch, with_set_back

_LOOK_SECONDS = 30.0
_NEW_TOPIC_SECONDS = 5.0
_ASK_SECONDS = 10.0
_ATTEMPTS = 3


def topic_identity(
    pipeline: Pipeline, settings: Settings, layout: Layout, topic: Topic, address: str
) -> TopicIdentity:
    """The topics that a bronze query is about to read; refuses those that are not the ones it has read.

    Raises:
        BrokerError: The broker does not answer.
        TopicChangedError: A topic is gone, or is another one of the same name; names the command to go on.
    """
    options = kafka.client_options(settings, pipeline, topic)
    path = layout.table_path(topic.table)
    last = last_commit_metadata(path, topic.table)
    watch = RecordWatch(path, address, options)

    def lookup(new: Sequence[str]) -> Mapping[str, str]:
        try:
            return topic_ids(address, new, options, _NEW_TOPIC_SECONDS)
        except BrokerError:
            return {}  # the records are there; their topic's id is looked up again at the next start

    def compare(batch: MicroBatch) -> None:
        offsets = batch.kafka_offsets()
        try:
            if offsets is None or watch.is_same(*offsets):
                return
            now = last_commit_metadata(path, topic.table)
            found = judged_topics(layout, topic, now, address, options) if now is not None else {}
        except BrokerError as error:
            raise BrokerAwayError(str(error)) from error
        for note in _notes(topic, found):
            say(note)
        if now is not None:
            watch.compared(now)

    identity = TopicIdentity(topic.table, lookup=lookup, compare=compare, learn=watch.learn)
    if last is None:
        # Nothing was read that could be compared; the first micro-batch looks the ids up.
        return identity
    recorded = recorded_topics(last)
    found = judged_topics(layout, topic, last, address, options)
    for note in _notes(topic, found):
        say(note)
    identity.known = {
        name: TopicState(one.id, recorded.get(name, TopicState()).generation) for name, one in found.items()
    }
    return identity


def _notes(topic: Topic, found: Mapping[str, BrokerTopic]) -> Iterator[str]:
    notes = (last_record_note(topic.table, name, one) for name, one in found.items())
    return (note for note in notes if note)


def judged_topics(
    layout: Layout, topic: Topic, last: Mapping[str, Any], address: str, options: Mapping[str, str]
) -> Mapping[str, BrokerTopic]:
    """The topics that bronze has read, as the broker has them now.

    Args:
        last: The metadata of bronze's newest micro-batch.

    Raises:
        BrokerError: The broker does not answer.
        TopicChangedError: A topic is gone, is another one, or was put back; names the command to go on.
    """
    # Topics of a pattern that were not read yet are looked up in the micro-batch that reads them.
    names = topic.topic_names or tuple(read_ends(last))
    for attempt in range(_ATTEMPTS):
        found = broker_topics(address, names, options)
        found = with_set_back(layout, topic.table, last, found, address, options)
        problem = next(_problems(topic, last, found, address), None)
        # After a change of leader, a broker may for a moment have fewer records than it has shown before.
        if problem is None or attempt == _ATTEMPTS - 1:
            break
        time.sleep(1.0)
    if problem is not None:
        raise TopicChangedError(problem)
    return found


def broker_asker(
    pipeline: Pipeline, settings: Settings, layout: Layout
) -> Callable[[Topic, Collection[str]], Mapping[str, BrokerTopic]]:
    """A function that asks the pipeline's broker for topics; it raises ``BrokerError`` without an answer.

    It never starts the embedded broker.
    """

    def ask(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
        address = kafka.named_broker(pipeline, settings) or lifecycle.running_address(settings)
        if address is None:
            raise BrokerStoppedError("the embedded broker is not running")
        options = kafka.client_options(settings, pipeline, topic)
        found = broker_topics(address, names, options, _ASK_SECONDS)
        last = last_commit_metadata(layout.table_path(topic.table), topic.table)
        return found if last is None else with_set_back(layout, topic.table, last, found, address, options)

    return ask


def receipts_reader(pipeline: Pipeline, settings: Settings) -> Callable[[Topic], GivenReceipts]:
    """A function that reads the receipts of a topic's producers; raises ``BrokerError`` without an answer.

    With the setting ``kafka.receipts_key`` a receipt that it has not signed is none. It never starts the
    embedded broker.
    """

    def read(topic: Topic) -> GivenReceipts:
        address = kafka.named_broker(pipeline, settings) or lifecycle.running_address(settings)
        if address is None:
            raise BrokerError("the embedded broker is not running")
        options = kafka.client_options(settings, pipeline, topic)
        return read_receipts(address, str(topic.receipts), options, receipts_key(settings))

    return read


def receipts_key(settings: Settings) -> str | None:
    """The key that signs receipts; None without one.

    Raises:
        SettingsError: Its reference leads nowhere.
    """
    given = settings.kafka.receipts_key
    return None if given is None else resolve_secret(given, "kafka.receipts_key")


def read_topics(pipeline: Pipeline, layout: Layout, names: Collection[str]) -> dict[str, tuple[Topic, str]]:
    """For each of these topics that bronze has read: its declaration, and the offsets in words."""
    found: dict[str, tuple[Topic, str]] = {}
    for topic in pipeline.topics if names else ():
        ends = read_ends(last_commit_metadata(layout.table_path(topic.table), topic.table))
        for name in names:
            if any(ends.get(name, {}).values()):
                found[name] = topic, _offsets_text(ends[name])
    return found


def refuse_deleted(pipeline: Pipeline, layout: Layout, missing: Collection[str], address: str) -> None:
    """Refuse to go on without topics that bronze has read; a new topic of the name would be another one.

    Raises:
        TopicChangedError: Names the topic, how far it was read, and the command to go on.
    """
    for name, (topic, offsets) in read_topics(pipeline, layout, missing).items():
        raise TopicChangedError(_deleted(topic.table, name, offsets, address))


def _problems(
    topic: Topic, last: Mapping[str, Any] | None, found: Mapping[str, BrokerTopic], address: str
) -> Iterator[str]:
    recorded = recorded_topics(last)
    batch = (last or {}).get("batch_id")
    for name, ends in read_ends(last).items():
        if not any(ends.values()) or (topic.topic_names and name not in topic.topic_names):
            continue  # nothing of it is in the table, or it is no longer read
        now, known = found.get(name), recorded.get(name, TopicState())
        if now is None:
            yield _deleted(topic.table, name, _offsets_text(ends), address)
        elif known.id and now.id and known.id != now.id:
            yield (
                f"{topic.table}: topic {name} at {address} is another one than bronze has read: it was "
                f"deleted and created again. Micro-batch {batch} has read the former topic (id {known.id}) "
                f"up to {_offsets_text(ends)}; the topic that is there now (id {now.id}) holds "
                f"{_held_text(now)}. Going on would leave out its records before these offsets. Nothing was "
                f"written. {_ways(topic, name)}"
            )
        elif now.set_back:
            yield _set_back(topic.table, name, ends, now, address, is_same=bool(known.id))
        elif short := [part for part, end in ends.items() if now.end.get(part, 0) < end]:
            yield (
                f"{topic.table}: topic {name} at {address} holds fewer records than bronze has read: "
                f"micro-batch {batch} has read up to {_offsets_text({part: ends[part] for part in short})}, "
                f"and the topic holds {_held_text(now)}. It was deleted and created again, or set back to an "
                f"older state. Nothing was written. {_ways(topic, name)}"
            )


def _deleted(table: str, name: str, offsets: str, address: str) -> str:
    return (
        f"{table}: topic {name} is gone at {address}, or this user may not see it; bronze has read it up to "
        f"{offsets}. A topic that is created again under this name is another one. Nothing was written, and "
        f"no topic was created. To begin with a new topic of this name: medallion recover {table} "
        f"--new-topic {name}"
    )


def _set_back(  # noqa: PLR0913  # both sides
    table: str, name: str, ends: Mapping[int, int], now: BrokerTopic, address: str, *, is_same: bool
) -> str:
    common = {number: one.common for number, one in now.set_back.items()}
    lacking = sum(one.lacking for one in now.set_back.values())
    what = f"it is the same topic, id {now.id}" if is_same else "or created again"
    read = _offsets_text({part: ends[part] for part in common})
    if lacking:
        differs = f"lacks {lacking:,} of the records that bronze has read: all"
    elif all(now.end.get(number, 0) < ends[number] for number in common):
        differs = "lacks offsets that bronze has read, of which bronze has no record: all"
    else:
        differs = (
            "has records where bronze has read offsets without one, such as those of an aborted transaction: "
            "all"
        )
    return (
        f"{table}: topic {name} at {address} was put back to an older state ({what}): bronze has read it up "
        f"to {read}, and the topic, which holds {_held_text(now)}, {differs} from {_offsets_text(common)} "
        "on. Bronze keeps what it has. Going on would leave out the records that came in their place. "
        "Nothing was written. To read the topic from there, beside the rows of the former one: medallion "
        f"recover {table} --new-topic {name}"
    )


def _ways(topic: Topic, name: str) -> str:
    return (
        "To read the topic that is there now from its first record, beside the rows of the former one: "
        f"medallion recover {topic.table} --new-topic {name}. If it holds the same records at the same "
        f"offsets, such as a copy of the topic in another cluster: medallion recover {topic.table} "
        f"--same-topic {name}"
    )


def _offsets_text(ends: Mapping[int, int], most: int = 4) -> str:
    shown = [f"{end} in partition {number}" for number, end in sorted(ends.items())[:most]]
    more = f" and {len(ends) - most} more partitions" if len(ends) > most else ""
    return f"offset {', '.join(shown)}{more}"


def _held_text(topic: BrokerTopic, most: int = 4) -> str:
    spans = [
        f"offsets {topic.first.get(number, 0)} to {end - 1} in partition {number}"
        for number, end in sorted(topic.end.items())
        if end > topic.first.get(number, 0)
    ]
    more = f" and more in {len(spans) - most} other partitions" if len(spans) > most else ""
    return (", ".join(spans[:most]) + more) or "no record"


@dataclass
class TopicWatch:
    """Compares the ids of the topics that run with the broker's, twice a minute, in a thread of its own."""

    identities: dict[str, TopicIdentity]  # the topics, by bronze table; queries are added as they are built
    lookup: Callable[[str, Sequence[str]], Mapping[str, str]]  # gives the ids of topics, by the bronze table
    seconds: float = _LOOK_SECONDS  # time between two looks
    _error: TopicChangedError | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def failure(self) -> MedallionError | None:
        """The topic that has changed, as an error; None while there is none."""
        return self._error

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look again and again within the block."""
        thread = threading.Thread(target=self._run, name="topic-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()

    def _run(self) -> None:
        looked = time.strftime("%H:%M:%S")
        while self._error is None and not self._stop.wait(self.seconds):
            began = time.strftime("%H:%M:%S")
            if self._look(looked):
                looked = began

    def _look(self, last: str) -> bool:
        """Look once; whether the broker has answered for all topics."""
        is_complete = True
        for table, identity in list(self.identities.items()):
            known = {name: state.id for name, state in list(identity.known.items()) if state.id}
            try:
                now = self.lookup(table, list(known))
            except BrokerError:  # Spark reports a broker that is gone
                is_complete = False
                continue
            for name, topic_id in known.items():
                if (found := now.get(name)) == topic_id:
                    continue
                what = f"was created again (id {found}, before {topic_id})" if found else "was deleted"
                self._error = TopicChangedError(
                    f"{table}: topic {name} {what} while the job was running, after {last}. The job stops. "
                    "Micro-batches that were committed since then may have read the new topic past its first "
                    "records. The next start says how to go on."
                )
        return is_complete
