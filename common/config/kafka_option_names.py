"""Options of Kafka's clients that people set, to propose one for a name that is nearly right.

Kafka clients and librdkafka have more, and plug-ins have their own: an option that is like none of
these is not refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from common.data_table import rows
from common.errors import closest

_NAMES = frozenset(name for (name,) in rows(__file__, "kafka_option_names.tsv"))
_ALIKE = 0.86
"""From this likeness on a name is a misspelling, and not another option."""


def misspelt(options: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Options that are nearly one of Kafka's, each with the right name."""
    for option in options:
        if option not in _NAMES and (near := closest(option, _NAMES, cutoff=_ALIKE)):
            yield option, near
