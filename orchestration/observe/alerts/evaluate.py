"""Compares rules with facts. No text holds anything of a record: no value, no key, no exception's message.

An observation is wrong, right, or not known. What is not known neither raises nor resolves an alert: a broker
that is down leaves the lag unknown, and that alone is no lag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.config.alert_settings import AlertRule, Kind
from orchestration.access.history.alert_state import Key
from orchestration.access.history.takeovers import kills, takeover_text, without_standby
from orchestration.observe.alerts.facts import Facts
from orchestration.observe.alerts.volume import explain, is_unusual
from orchestration.observe.status.model import FAULTY, NEEDS_A_PERSON, Freshness, Lag, TableStatus
from orchestration.observe.status.words.state import deletes_words, duration, unread_words

ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]{2,60}(?:\.[A-Z0-9_]{2,60})?)\]")
"""Spark's name of an error condition, such as ``[DIVIDE_BY_ZERO]``; the text behind it may quote a value."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one rule says of one table, or of the pipeline: ``is_wrong`` is None where it is not known."""

    is_wrong: bool | None
    text: str


Found = tuple[str, Observation]
"""A table, or an empty text for the pipeline, and what is observed of it."""


def observe(rules: Mapping[str, AlertRule], facts: Facts) -> dict[Key, Observation]:
    """What all rules say now, by rule and table."""
    return {
        (name, table): observation
        for name, rule in rules.items()
        for table, observation in _BY_KIND[rule.when](rule, facts)
    }


def _tables(rule: AlertRule, facts: Facts) -> Iterator[TableStatus]:
    return (table for table in facts.status.tables if rule.watches(table.table))


def _over(found: float | None, limit: float | None, text: Callable[[float], str]) -> Observation:
    """A number that is wrong above a limit."""
    if found is None or limit is None:
        return Observation(None, "not known")
    return Observation(found > limit, text(found))


def _freshness(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    def text(seconds: float) -> str:
        return f"a record has waited for {duration(seconds)} (limit {rule.limit_text})"

    at, limit = facts.status.at, rule.limit_seconds or 0.0
    if not rule.tables:
        yield (
            "",
            _fresh(facts.status.last_freshness, at, limit, lambda found: f"gold is not fresh: {text(found)}"),
        )
        return
    for table in _tables(rule, facts):
        if table.freshness is not None:
            yield table.table, _fresh((table.freshness,), at, limit, text)


def _fresh(
    found: Sequence[Freshness], at: datetime, limit: float, text: Callable[[float], str]
) -> Observation:
    """The worst of some tables; what has not been known for longer than the limit is wrong too."""
    ages = [each.waiting_seconds(at) for each in found]
    worst = max((age for age in ages if age is not None), default=0.0)
    unknown = max((each.unknown_seconds(at) for each in found), default=0.0)
    if worst > limit:
        return Observation(is_wrong=True, text=text(worst))
    if unknown > limit:
        return Observation(
            is_wrong=True, text=f"it has not been known for {duration(unknown)} whether a record waits"
        )
    return Observation(None if None in ages else False, "not known" if None in ages else text(worst))


def _lag(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        yield table.table, _one_lag(rule, table.lag)


def _one_lag(rule: AlertRule, lag: Lag) -> Observation:
    def aged(seconds: float) -> str:
        return f"the oldest of its unread {lag.unit} is {duration(seconds)} old (limit {rule.limit_text})"

    def counted(count: float) -> str:
        return f"{unread_words(round(count), lag.unit)} (limit {rule.limit_number:,.0f})"

    if rule.limit_seconds is not None:
        return _over(lag.seconds, rule.limit_seconds, aged)
    return _over(lag.count, rule.limit_number, counted)


def _time_to_loss(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        loss, limit = table.loss, rule.limit_seconds
        if loss.seconds is None or limit is None:
            yield table.table, Observation(None, "not known")
        elif loss.is_never:
            yield table.table, Observation(is_wrong=False, text="never")
        else:
            text = f"{deletes_words(loss)} (limit {rule.limit_text})"
            yield table.table, Observation(loss.seconds < limit, text)


def _quarantine_share(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        if table.quarantine is None:
            continue
        recent, limit = table.quarantine.recent, rule.limit_number
        if recent is None or limit is None:
            yield table.table, Observation(None, "not known")
            continue
        text = (
            f"{100 * recent.share:.1f} % of the {recent.read:,} rows of the last {duration(recent.seconds)} "
            f"went to quarantine (limit {limit:g} %): medallion quarantine list"
        )
        yield table.table, Observation(recent.read >= rule.rows and 100 * recent.share > limit, text)


def _no_data(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        if table.layer != "bronze":
            continue
        age = None if table.freshness is None else table.freshness.newest_seconds(facts.status.at)
        is_running = not table.query.is_opening  # a job that starts Spark reads nothing yet
        if age is None and is_running and table.holder is not None and table.holder.started_at is not None:
            age = (facts.status.at - table.holder.started_at).total_seconds()
        if table.lag.count is None:
            yield table.table, Observation(None, "not known")
        elif table.lag.count:
            yield table.table, Observation(is_wrong=False, text="records are unread")
        else:
            yield (
                table.table,
                _over(
                    age,
                    rule.limit_seconds,
                    lambda found: f"no record has come for {duration(found)} (limit {rule.limit_text})",
                ),
            )


def _volume(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        if (volume := facts.volumes.get(table.table)) is not None and rule.limit_number is not None:
            wrong = is_unusual(volume, rule.limit_number)
            yield table.table, Observation(wrong, f"the records of the last hour are {explain(volume)}")


def _query_dead(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        query = table.query
        cause = ERROR_CLASS.search(query.error)
        what = f"the query is {query.state}{f' ({cause[1]})' if cause else ''}"
        yield (
            table.table,
            Observation(query.state in NEEDS_A_PERSON, f"{what}; medallion status says why"),
        )


def _restarts(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        known = facts.restarts.get(table.table)
        yield (
            table.table,
            _over(
                None if known is None else len(known.times),
                rule.limit_number,
                lambda count: f"{count:.0f} restarts within an hour (limit {rule.limit_text})",
            ),
        )


def _suite_failed(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for suite in facts.suites:
        if rule.watches(suite.table):
            text = f"{len(suite.failed)} of {suite.checked} expectations were not met"
            names = ", ".join(suite.failed[:3]) + (", …" if len(suite.failed) > 3 else "")  # noqa: PLR2004
            yield suite.table, Observation(not suite.is_met, f"{text}: {names}" if names else text)


def _broker_down(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    status = facts.status
    # A job that has ended because of the broker still misses it.
    is_used = any(table.holder or table.query.state in FAULTY for table in status.tables)
    yield "", Observation(bool(status.broker_note) and is_used, "the broker does not answer")


def _job_killed(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    jobs, at = facts.status.jobs, facts.status.at
    lasting = timedelta(seconds=rule.limit_seconds or 0.0)
    texts = [takeover_text(job) for job in kills(jobs, at, lasting)]
    yield "", Observation(bool(texts), "; ".join(texts))


def _no_standby(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    texts = [*without_standby(facts.status.jobs, facts.status.awaited)]
    yield "", Observation(bool(texts), "; ".join(texts))


def _no_receipt(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    """Whether receipts have stopped, as the newest audit has seen: what came since is not known."""
    for table in _tables(rule, facts):
        if (found := table.receipts) is not None:
            age = 0.0 if found.since is None else (found.at - found.since).total_seconds()
            yield table.table, Observation(age > (rule.limit_seconds or 0.0), found.text)


def _open_transaction(rule: AlertRule, facts: Facts) -> Iterator[Found]:
    for table in _tables(rule, facts):
        if table.layer != "bronze":
            continue
        hidden, limit = table.uncommitted, rule.limit_seconds
        if hidden is None or limit is None:
            yield table.table, Observation(None, "not known")
            continue
        text = (
            f"a transaction is open for {duration(hidden.seconds)}: {hidden.records:,} records behind it "
            "cannot be read"
        )
        is_long = hidden.seconds > limit
        # The process that watched before has seen it for longer: its alert stays.
        is_wrong = None if hidden.is_at_least and not is_long else is_long
        yield table.table, Observation(is_wrong if hidden.records else False, text)


_BY_KIND: Mapping[Kind, Callable[[AlertRule, Facts], Iterator[Found]]] = {
    "freshness": _freshness,
    "lag": _lag,
    "time_to_loss": _time_to_loss,
    "quarantine_share": _quarantine_share,
    "no_data": _no_data,
    "volume": _volume,
    "query_dead": _query_dead,
    "restarts": _restarts,
    "suite_failed": _suite_failed,
    "broker_down": _broker_down,
    "open_transaction": _open_transaction,
    "no_receipt": _no_receipt,
    "job_killed": _job_killed,
    "no_standby": _no_standby,
}
