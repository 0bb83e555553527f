"""What the rows of a processor mean."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from common.declare import Stateful
from common.declare.gold_statement import why_undefined
from gold.table.declaration_marks import meaning
from orchestration.author.check.gold import gold_scopes


class Nothing(StatefulProcessor):  # type: ignore[misc]
    """Emits nothing."""


class Beginning(Nothing):
    """Begins with a table."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Take a row."""


def stateful(**changed: Any) -> Stateful:
    given: dict[str, Any] = {
        "reads": "silver.readings",
        "key": ["device"],
        "processor": Nothing,
        "output": "device string, since timestamp",
    }
    return Stateful("silent", **given | changed)


def test_its_columns_are_those_that_the_processor_emits() -> None:
    (scope,) = gold_scopes(stateful(), {}).values()
    assert [field.name for field in scope.fields or ()] == ["device", "since"]


def test_what_its_rows_mean() -> None:
    """Another key, output, mode or time is another table; another class has no text."""
    assert meaning(stateful()).keys() == {"reads", "key", "output"}
    begun = stateful(initial="/lake/former", processor=Beginning)
    assert meaning(begun).keys() == {"reads", "key", "output", "initial"}
    assert meaning(stateful(processor=Beginning)) == meaning(stateful())
    assert meaning(stateful(mode="update", event_time="at", timers="processing_time")).keys() == {
        "reads", "key", "output", "mode", "event_time", "timers"
    }  # fmt: skip
    assert why_undefined(stateful()) == "a processor of the pipeline emits its rows"
    assert stateful().reads_in_order
    assert stateful().keeps_state
