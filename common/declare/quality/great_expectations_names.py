"""Great Expectations' core expectations, so that a check of a pipeline does not import the library.

A test asserts that names, classes and arguments are exactly those of the installed version.
"""

from collections.abc import Mapping

from common.data_table import rows

_GROUPS = {
    "ROWS": ("mostly", "row_condition", "condition_parser"),
    "WHERE": ("row_condition", "condition_parser"),
    "DISTRIBUTION": (
        "partition_object",
        "threshold",
        "internal_weight_holdout",
        "tail_weight_holdout",
        "bucketize_data",
    ),
    "RANGE": ("min_value", "max_value", "strict_min", "strict_max"),
}
"""Arguments that many expectations have together."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for word in text.split() for name in _GROUPS.get(word, (word,)))


EXPECTATIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    f"expect_{name}": (_names(needed), _names(further))
    for name, needed, further in rows(__file__, "great_expectations_names.tsv")
}
"""The arguments of each expectation: those that it needs, and those that it may have."""

CLASSES: Mapping[str, str] = {
    "".join("KL" if word == "kl" else word.capitalize() for word in name.split("_")): name
    for name in EXPECTATIONS
}
"""The expectation's name of each class in ``gx.expectations``."""
