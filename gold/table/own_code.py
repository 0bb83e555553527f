"""Functions and classes of the user's own that run in Spark's worker processes."""

from __future__ import annotations

import sys

from pyspark import cloudpickle


def send_to_workers(*modules: str) -> None:
    """Send what is defined in modules with each task: a worker imports neither them nor the pipeline file.

    Args:
        modules: Their names; one that is not imported here is left out.
    """
    for name in {*modules} & sys.modules.keys():
        cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
