"""The settings ``alerts``: rules that say what is wrong, and channels that say it to people.

A rule watches one kind of trouble. ``over`` or ``under`` is its limit, a duration or a number as the kind
needs it; ``for`` is how long the trouble must last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from common.config.durations import Duration, seconds_of
from common.declare.intervals import parse_duration
from common.errors import nearest

Kind = Literal[
    "freshness",
    "lag",
    "time_to_loss",
    "quarantine_share",
    "no_data",
    "volume",
    "query_dead",
    "restarts",
    "suite_failed",
    "broker_down",
    "open_transaction",
    "no_receipt",
    "job_killed",
    "no_standby",
]
AlertSeverity = Literal["critical", "warning"]
Unit = Literal["duration", "rows or duration", "percent", "times", "spreads", ""]


@dataclass(frozen=True, slots=True)
class Limit:
    """Which limit a kind of rule has."""

    side: Literal["over", "under", ""]  # ``over`` or ``under``; empty for a kind without a limit
    unit: Unit  # what the limit counts
    example: str  # a limit as a settings file has it
    usual: str  # the limit of a rule that names none; empty: the rule must name one
    meaning: str  # what the kind watches, for people


LIMITS: Mapping[Kind, Limit] = {
    "freshness": Limit(
        "over",
        "duration",
        "10 minutes",
        "",
        "the oldest Kafka record that gold lacks has waited longer; with `tables`, that these tables lack",
    ),
    "lag": Limit(
        "over",
        "rows or duration",
        "100000",
        "",
        "a query has more rows to read, or has left a row unread for longer",
    ),
    "time_to_loss": Limit(
        "under", "duration", "1 day", "", "unread data is deleted sooner at the present rates"
    ),
    "quarantine_share": Limit(
        "over",
        "percent",
        "5 %",
        "",
        "of the rows that silver read in 15 minutes, a larger share went to quarantine; with fewer rows "
        "than `rows`, nothing",
    ),
    "no_data": Limit(
        "over", "duration", "30 minutes", "", "bronze has read all, and the newest record is older"
    ),
    "volume": Limit(
        "over",
        "spreads",
        "3.5",
        "3.5",
        "the records of the last hour are unusual for this time of day, by so many spreads",
    ),
    "query_dead": Limit(
        "", "", "", "", "a query has failed for good, reads none of its unread rows, or its process is gone"
    ),
    "restarts": Limit("over", "times", "3", "", "a query was restarted more often within an hour"),
    "suite_failed": Limit("", "", "", "", "the last run of a quality suite was not met"),
    "broker_down": Limit("", "", "", "", "the broker does not answer while a job runs"),
    "open_transaction": Limit(
        "over", "duration", "5 minutes", "", "a transaction of a topic has been open for longer"
    ),
    "no_receipt": Limit(
        "over",
        "duration",
        "1 hour",
        "",
        "the newest audit has found records older than that without a receipt",
    ),
    "job_killed": Limit(
        "under",
        "duration",
        "1 hour",
        "1 hour",
        "the process of a job was killed and another took over, less long ago",
    ),
    "no_standby": Limit("", "", "", "", "a job's standby has taken over, and no other one waits"),
}
"""The limit of each kind of rule."""


def _limit(given: object) -> object:
    """Numbers of YAML as text; a limit is read by the kind of its rule."""
    return str(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else given


class AlertRule(BaseModel):
    """One rule; ``alerts.rules`` has them by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    when: Kind
    over: Annotated[str | None, BeforeValidator(_limit)] = None
    under: Annotated[str | None, BeforeValidator(_limit)] = None
    lasting: Duration = Field(default="0 seconds", alias="for")
    severity: AlertSeverity = "warning"
    channels: tuple[str, ...] | None = None
    tables: tuple[str, ...] = ()
    rows: int = Field(default=100, ge=1)

    @model_validator(mode="after")
    def _check_limit(self) -> Self:
        known = LIMITS[self.when]
        for side, given in (("over", self.over), ("under", self.under)):
            if given is not None and side != known.side:
                wanted = f"has '{known.side}'" if known.side else "has no limit"
                raise ValueError(f"a rule for {self.when} {wanted}, not '{side}'")
        if known.side and self.limit_text == "":
            raise ValueError(f"a rule for {self.when} needs '{known.side}', such as '{known.example}'")
        if known.side and self.limit_seconds is None and self.limit_number is None:
            raise ValueError(
                f"{known.side} {self.limit_text!r} is no {known.unit}; write it like '{known.example}'"
            )
        return self

    @property
    def limit_text(self) -> str:
        """The limit as it is written; empty for a kind without one."""
        return self.over or self.under or LIMITS[self.when].usual

    @property
    def limit_seconds(self) -> float | None:
        """The limit as a duration; None where it is a number."""
        length = parse_duration(self.limit_text) if "duration" in LIMITS[self.when].unit else None
        return None if length is None else length.seconds

    @property
    def limit_number(self) -> float | None:
        """The limit as a number of rows, percent, times or spreads; None where it is a duration."""
        unit = LIMITS[self.when].unit
        if unit in {"duration", ""}:
            return None
        text = self.limit_text.removesuffix("%").strip() if unit == "percent" else self.limit_text
        try:
            number = float(text.replace("_", ""))
        except ValueError:
            return None
        return number if 0 <= number < float("inf") else None

    @property
    def lasting_seconds(self) -> float:
        """``for`` in seconds."""
        return seconds_of(self.lasting)

    def watches(self, table: str) -> bool:
        """Whether the rule watches a table: ``tables`` has its name or a pattern such as ``gold.*``."""
        return not self.tables or any(fnmatchcase(table, pattern) for pattern in self.tables)


DEFAULT_RULES: Mapping[str, AlertRule] = {
    name: AlertRule.model_validate(given)
    for name, given in {
        "query-dead": {"when": "query_dead", "for": "1 minute", "severity": "critical"},
        "loss-near": {
            "when": "time_to_loss",
            "under": "1 day",
            "for": "5 minutes",
            "severity": "critical",
        },
        "not-fresh": {"when": "freshness", "over": "10 minutes", "for": "5 minutes"},
        "quarantine": {"when": "quarantine_share", "over": "5 %", "for": "5 minutes"},
        "restarts": {"when": "restarts", "over": "3"},
        "suite-failed": {"when": "suite_failed"},
        "broker-down": {"when": "broker_down", "for": "2 minutes"},
        "open-transaction": {"when": "open_transaction", "over": "5 minutes"},
        "no-receipt": {"when": "no_receipt", "over": "1 hour"},
        "job-killed": {"when": "job_killed"},
        "no-standby": {"when": "no_standby", "for": "2 minutes"},
    }.items()
}
"""The rules of a pipeline that names channels and no rules."""


def _named(given: object) -> object:
    if isinstance(given, Mapping):
        for name in given:
            if not str(name).replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"{name!r} is no name; use letters, digits, '-' and '_'")
    return given


class AlertSettings(BaseModel):
    """Alerts: what wakes people, and how it reaches them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    channels: Annotated[dict[str, str], BeforeValidator(_named)] = Field(
        default_factory=dict,
        description="By name, where alerts are sent: an address of apprise, such as json://host/path, "
        "mailtos://…, slack://… or pagerduty://…; or a reference to it, env:NAME or file:/path.",
    )
    rules: Annotated[dict[str, AlertRule] | None, BeforeValidator(_named)] = Field(
        default=None,
        description="By name, what is watched: when, over or under, for, severity, channels, tables (see "
        "docs/run/operate.md). Unset: ten rules, where a channel is named.",
    )
    enabled: bool = Field(
        default=True, description="Whether alerts are watched; false turns them off in an environment's file."
    )
    interval: Duration = Field(
        default="10 seconds", description="Time between two looks at the pipeline for alerts."
    )

    @model_validator(mode="after")
    def _check_channels(self) -> Self:
        for name, rule in (self.rules or {}).items():
            for channel in rule.channels or ():
                if channel not in self.channels:
                    raise ValueError(f"rule {name}: channel {channel}: {nearest(channel, self.channels)}")
        return self

    @property
    def active_rules(self) -> Mapping[str, AlertRule]:
        """The rules that are watched; empty where alerts are off."""
        if not self.enabled:
            return {}
        if self.rules is not None:
            return self.rules
        return DEFAULT_RULES if self.channels else {}

    @property
    def interval_seconds(self) -> float:
        """``interval`` in seconds."""
        return max(0.2, seconds_of(self.interval))

    def channels_of(self, rule: str) -> tuple[str, ...]:
        """The channels that a rule's alerts go to; all of them unless the rule names some."""
        found = self.active_rules.get(rule)
        if found is None or found.channels is None:
            return tuple(self.channels)
        return found.channels


KINDS: tuple[Kind, ...] = get_args(Kind)
