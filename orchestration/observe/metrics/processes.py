"""Several processes of a pipeline export its metrics: each number is drawn, and each trouble alerted, once.

A process per layer, and `medallion page` beside them, each export the whole pipeline. Prometheus keeps a
series for each process.
"""

from __future__ import annotations

from typing import Literal

_OF_A_PROCESS = "instance, pod, node, service"
"""Labels that Prometheus gives to what one process exports, on a host and in Kubernetes."""


def seen_once(choice: Literal["max", "min"], expression: str) -> str:
    """An expression over the series of all processes that has one series for what several processes see.

    Args:
        choice: Which value is taken where processes have read at different moments.
        expression: An expression in PromQL.
    """
    return f"{choice} without ({_OF_A_PROCESS}) ({expression})"
