from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from medallion import Json, Pipeline, Silver, Stateful, Topic

QUIET_MS = 10 * 60 * 1000


class Silence(StatefulProcessor):
    """A row for each device that has sent nothing for ten minutes of event time."""

    def init(self, handle):
        self.handle = handle
        self.newest = handle.getValueState("newest", "ms bigint")

    def handleInputRows(self, key, rows, timerValues):
        known = self.newest.get()
        newest = max([int(row.read_at.timestamp() * 1000) for row in rows] + list(known or ()))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.newest.update((newest,))
        self.handle.registerTimer(newest + QUIET_MS)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        (newest,) = self.newest.get()
        self.newest.clear()
        yield Row(device=key[0], silent_since=datetime.fromtimestamp(newest / 1000, UTC))

    def close(self):
        pass


pipeline = Pipeline(
    name="plant",
    bronze=[Topic("readings")],
    silver=[
        Silver(
            "readings",
            reads="bronze.readings",
            value=Json("id string, device string, at timestamp, celsius double"),
            columns={"reading_id": "id", "device": "device", "read_at": "at", "celsius": "celsius"},
            key=["reading_id"],
            event_time="read_at",
            watermark="1 hour",
        ),
    ],
    gold=[
        Stateful(
            "silent_devices",
            reads="silver.readings",
            key=["device"],
            processor=Silence,
            output="device string, silent_since timestamp",
            event_time="read_at",
            watermark="1 minute",
            timers="event_time",
        ),
    ],
)
