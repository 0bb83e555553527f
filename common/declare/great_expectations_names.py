"""Great Expectations' core expectations, so that a check of a pipeline does not import the library.

A test asserts that names, classes and arguments are exactly those of the installed version.
"""

from collections.abc import Mapping

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

_ARGUMENTS = """
    column_distinct_values_to_be_in_set: column value_set | WHERE
    column_distinct_values_to_contain_set: column value_set | WHERE
    column_distinct_values_to_equal_set: column value_set | WHERE
    column_kl_divergence_to_be_less_than: column | WHERE DISTRIBUTION min_value max_value
    column_max_to_be_between: column | WHERE RANGE
    column_mean_to_be_between: column | WHERE RANGE
    column_median_to_be_between: column | WHERE RANGE
    column_min_to_be_between: column | WHERE RANGE
    column_most_common_value_to_be_in_set: column value_set | WHERE ties_okay
    column_pair_values_a_to_be_greater_than_b: column_A column_B | ROWS or_equal ignore_row_if
    column_pair_values_to_be_equal: column_A column_B | ROWS ignore_row_if
    column_pair_values_to_be_in_set: column_A column_B value_pairs_set | ROWS ignore_row_if
    column_proportion_of_non_null_values_to_be_between: column | WHERE RANGE library_metadata
    column_proportion_of_unique_values_to_be_between: column | WHERE RANGE library_metadata
    column_quantile_values_to_be_between: column quantile_ranges | WHERE allow_relative_error
    column_stdev_to_be_between: column | WHERE RANGE
    column_sum_to_be_between: column | WHERE RANGE
    column_to_exist: column | column_index
    column_type_to_be: column type_ |
    column_unique_value_count_to_be_between: column | WHERE RANGE library_metadata
    column_value_lengths_to_be_between: column | ROWS RANGE
    column_value_lengths_to_equal: column value | ROWS
    column_value_z_scores_to_be_less_than: column threshold double_sided | ROWS
    column_values_to_be_between: column | ROWS RANGE
    column_values_to_be_dateutil_parseable: column | ROWS library_metadata
    column_values_to_be_decreasing: column | ROWS strictly library_metadata
    column_values_to_be_in_set: column value_set | ROWS
    column_values_to_be_in_type_list: column | ROWS type_list
    column_values_to_be_increasing: column | ROWS strictly library_metadata
    column_values_to_be_json_parseable: column | ROWS library_metadata
    column_values_to_be_null: column | ROWS
    column_values_to_be_of_type: column type_ | ROWS
    column_values_to_be_unique: column | ROWS
    column_values_to_match_json_schema: column json_schema | ROWS library_metadata
    column_values_to_match_like_pattern: column like_pattern | ROWS escape
    column_values_to_match_like_pattern_list: column like_pattern_list | ROWS match_on escape
    column_values_to_match_regex: column | ROWS regex
    column_values_to_match_regex_list: column regex_list | ROWS match_on
    column_values_to_match_strftime_format: column strftime_format | ROWS
    column_values_to_not_be_in_set: column value_set | ROWS
    column_values_to_not_be_null: column | ROWS
    column_values_to_not_be_outliers: column | ROWS method multiplier
    column_values_to_not_match_like_pattern: column like_pattern | ROWS escape
    column_values_to_not_match_like_pattern_list: column like_pattern_list | ROWS escape
    column_values_to_not_match_regex: column regex | ROWS
    column_values_to_not_match_regex_list: column regex_list | ROWS
    compound_columns_to_be_unique: column_list | ROWS ignore_row_if
    multicolumn_sum_to_equal: column_list sum_total | ROWS ignore_row_if
    multicolumn_values_to_be_equal: column_list | ROWS ignore_row_if
    query_results_to_match_comparison: base_query comparison_data_source_name comparison_query | mostly
    select_column_values_to_be_unique_within_record: column_list | ROWS ignore_row_if
    table_column_count_to_be_between: | min_value max_value
    table_column_count_to_equal: value |
    table_columns_to_match_ordered_list: | column_list
    table_columns_to_match_set: | column_set exact_match
    table_row_count_to_be_between: | RANGE WHERE
    table_row_count_to_equal: value | WHERE
    table_row_count_to_equal_other_table: other_table_name | WHERE
"""
"""Per expectation without ``expect_``: the arguments that it needs, and those that it may have."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for word in text.split() for name in _GROUPS.get(word, (word,)))


def _parsed() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    found = {}
    for line in _ARGUMENTS.strip().splitlines():
        name, _, arguments = line.strip().partition(":")
        needed, _, further = arguments.partition("|")
        found[f"expect_{name}"] = _names(needed), _names(further)
    return found


EXPECTATIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = _parsed()
"""The arguments of each expectation: those that it needs, and those that it may have."""

CLASSES: Mapping[str, str] = {
    "".join("KL" if word == "kl" else word.capitalize() for word in name.split("_")): name
    for name in EXPECTATIONS
}
"""The expectation's name of each class in ``gx.expectations``."""
