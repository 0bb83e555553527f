"""Great Expectations' core expectations, so that a check of a pipeline does not import the library.

A test asserts that names, classes and arguments are exactly those of the installed version.
"""

from collections.abc import Mapping

EXPECTATIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "expect_column_distinct_values_to_be_in_set": (
        ("column", "value_set"),
        ("row_condition", "condition_parser"),
    ),
    "expect_column_distinct_values_to_contain_set": (
        ("column", "value_set"),
        ("row_condition", "condition_parser"),
    ),
    "expect_column_distinct_values_to_equal_set": (
        ("column", "value_set"),
        ("row_condition", "condition_parser"),
    ),
    "expect_column_kl_divergence_to_be_less_than": (
        ("column",),
        (
            "row_condition",
            "condition_parser",
            "partition_object",
            "threshold",
            "internal_weight_holdout",
            "tail_weight_holdout",
            "bucketize_data",
            "min_value",
            "max_value",
        ),
    ),
    "expect_column_max_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_mean_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_median_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_min_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_most_common_value_to_be_in_set": (
        ("column", "value_set"),
        ("row_condition", "condition_parser", "ties_okay"),
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        ("column_A", "column_B"),
        ("mostly", "row_condition", "condition_parser", "or_equal", "ignore_row_if"),
    ),
    "expect_column_pair_values_to_be_equal": (
        ("column_A", "column_B"),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_column_pair_values_to_be_in_set": (
        ("column_A", "column_B", "value_pairs_set"),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": (
        ("column",),
        (
            "row_condition",
            "condition_parser",
            "min_value",
            "max_value",
            "strict_min",
            "strict_max",
            "library_metadata",
        ),
    ),
    "expect_column_proportion_of_unique_values_to_be_between": (
        ("column",),
        (
            "row_condition",
            "condition_parser",
            "min_value",
            "max_value",
            "strict_min",
            "strict_max",
            "library_metadata",
        ),
    ),
    "expect_column_quantile_values_to_be_between": (
        ("column", "quantile_ranges"),
        ("row_condition", "condition_parser", "allow_relative_error"),
    ),
    "expect_column_stdev_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_sum_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_to_exist": (("column",), ("column_index",)),
    "expect_column_type_to_be": (("column", "type_"), ()),
    "expect_column_unique_value_count_to_be_between": (
        ("column",),
        (
            "row_condition",
            "condition_parser",
            "min_value",
            "max_value",
            "strict_min",
            "strict_max",
            "library_metadata",
        ),
    ),
    "expect_column_value_lengths_to_be_between": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_value_lengths_to_equal": (
        ("column", "value"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_value_z_scores_to_be_less_than": (
        ("column", "threshold", "double_sided"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_values_to_be_between": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_values_to_be_dateutil_parseable": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "library_metadata"),
    ),
    "expect_column_values_to_be_decreasing": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "strictly", "library_metadata"),
    ),
    "expect_column_values_to_be_in_set": (
        ("column", "value_set"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_values_to_be_in_type_list": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "type_list"),
    ),
    "expect_column_values_to_be_increasing": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "strictly", "library_metadata"),
    ),
    "expect_column_values_to_be_json_parseable": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "library_metadata"),
    ),
    "expect_column_values_to_be_null": (("column",), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_be_of_type": (
        ("column", "type_"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_values_to_be_unique": (("column",), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_match_json_schema": (
        ("column", "json_schema"),
        ("mostly", "row_condition", "condition_parser", "library_metadata"),
    ),
    "expect_column_values_to_match_like_pattern": (
        ("column", "like_pattern"),
        ("mostly", "row_condition", "condition_parser", "escape"),
    ),
    "expect_column_values_to_match_like_pattern_list": (
        ("column", "like_pattern_list"),
        ("mostly", "row_condition", "condition_parser", "match_on", "escape"),
    ),
    "expect_column_values_to_match_regex": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "regex"),
    ),
    "expect_column_values_to_match_regex_list": (
        ("column", "regex_list"),
        ("mostly", "row_condition", "condition_parser", "match_on"),
    ),
    "expect_column_values_to_match_strftime_format": (
        ("column", "strftime_format"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_values_to_not_be_in_set": (
        ("column", "value_set"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_values_to_not_be_null": (("column",), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_not_be_outliers": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "method", "multiplier"),
    ),
    "expect_column_values_to_not_match_like_pattern": (
        ("column", "like_pattern"),
        ("mostly", "row_condition", "condition_parser", "escape"),
    ),
    "expect_column_values_to_not_match_like_pattern_list": (
        ("column", "like_pattern_list"),
        ("mostly", "row_condition", "condition_parser", "escape"),
    ),
    "expect_column_values_to_not_match_regex": (
        ("column", "regex"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_values_to_not_match_regex_list": (
        ("column", "regex_list"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_compound_columns_to_be_unique": (
        ("column_list",),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_multicolumn_sum_to_equal": (
        ("column_list", "sum_total"),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_multicolumn_values_to_be_equal": (
        ("column_list",),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_query_results_to_match_comparison": (
        ("base_query", "comparison_data_source_name", "comparison_query"),
        ("mostly",),
    ),
    "expect_select_column_values_to_be_unique_within_record": (
        ("column_list",),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_table_column_count_to_be_between": ((), ("min_value", "max_value")),
    "expect_table_column_count_to_equal": (("value",), ()),
    "expect_table_columns_to_match_ordered_list": ((), ("column_list",)),
    "expect_table_columns_to_match_set": ((), ("column_set", "exact_match")),
    "expect_table_row_count_to_be_between": (
        (),
        ("min_value", "max_value", "strict_min", "strict_max", "row_condition", "condition_parser"),
    ),
    "expect_table_row_count_to_equal": (("value",), ("row_condition", "condition_parser")),
    "expect_table_row_count_to_equal_other_table": (
        ("other_table_name",),
        ("row_condition", "condition_parser"),
    ),
}
"""Required and optional arguments of each expectation, without those that every expectation has."""

CLASSES: Mapping[str, str] = {
    "ExpectColumnDistinctValuesToBeInSet": "expect_column_distinct_values_to_be_in_set",
    "ExpectColumnDistinctValuesToContainSet": "expect_column_distinct_values_to_contain_set",
    "ExpectColumnDistinctValuesToEqualSet": "expect_column_distinct_values_to_equal_set",
    "ExpectColumnKLDivergenceToBeLessThan": "expect_column_kl_divergence_to_be_less_than",
    "ExpectColumnMaxToBeBetween": "expect_column_max_to_be_between",
    "ExpectColumnMeanToBeBetween": "expect_column_mean_to_be_between",
    "ExpectColumnMedianToBeBetween": "expect_column_median_to_be_between",
    "ExpectColumnMinToBeBetween": "expect_column_min_to_be_between",
    "ExpectColumnMostCommonValueToBeInSet": "expect_column_most_common_value_to_be_in_set",
    "ExpectColumnPairValuesAToBeGreaterThanB": "expect_column_pair_values_a_to_be_greater_than_b",
    "ExpectColumnPairValuesToBeEqual": "expect_column_pair_values_to_be_equal",
    "ExpectColumnPairValuesToBeInSet": "expect_column_pair_values_to_be_in_set",
    "ExpectColumnProportionOfNonNullValuesToBeBetween": "expect_column_proportion_of_non_null_values_to_be_between",  # noqa: E501
    "ExpectColumnProportionOfUniqueValuesToBeBetween": "expect_column_proportion_of_unique_values_to_be_between",  # noqa: E501
    "ExpectColumnQuantileValuesToBeBetween": "expect_column_quantile_values_to_be_between",
    "ExpectColumnStdevToBeBetween": "expect_column_stdev_to_be_between",
    "ExpectColumnSumToBeBetween": "expect_column_sum_to_be_between",
    "ExpectColumnToExist": "expect_column_to_exist",
    "ExpectColumnTypeToBe": "expect_column_type_to_be",
    "ExpectColumnUniqueValueCountToBeBetween": "expect_column_unique_value_count_to_be_between",
    "ExpectColumnValueLengthsToBeBetween": "expect_column_value_lengths_to_be_between",
    "ExpectColumnValueLengthsToEqual": "expect_column_value_lengths_to_equal",
    "ExpectColumnValueZScoresToBeLessThan": "expect_column_value_z_scores_to_be_less_than",
    "ExpectColumnValuesToBeBetween": "expect_column_values_to_be_between",
    "ExpectColumnValuesToBeDateutilParseable": "expect_column_values_to_be_dateutil_parseable",
    "ExpectColumnValuesToBeDecreasing": "expect_column_values_to_be_decreasing",
    "ExpectColumnValuesToBeInSet": "expect_column_values_to_be_in_set",
    "ExpectColumnValuesToBeInTypeList": "expect_column_values_to_be_in_type_list",
    "ExpectColumnValuesToBeIncreasing": "expect_column_values_to_be_increasing",
    "ExpectColumnValuesToBeJsonParseable": "expect_column_values_to_be_json_parseable",
    "ExpectColumnValuesToBeNull": "expect_column_values_to_be_null",
    "ExpectColumnValuesToBeOfType": "expect_column_values_to_be_of_type",
    "ExpectColumnValuesToBeUnique": "expect_column_values_to_be_unique",
    "ExpectColumnValuesToMatchJsonSchema": "expect_column_values_to_match_json_schema",
    "ExpectColumnValuesToMatchLikePattern": "expect_column_values_to_match_like_pattern",
    "ExpectColumnValuesToMatchLikePatternList": "expect_column_values_to_match_like_pattern_list",
    "ExpectColumnValuesToMatchRegex": "expect_column_values_to_match_regex",
    "ExpectColumnValuesToMatchRegexList": "expect_column_values_to_match_regex_list",
    "ExpectColumnValuesToMatchStrftimeFormat": "expect_column_values_to_match_strftime_format",
    "ExpectColumnValuesToNotBeInSet": "expect_column_values_to_not_be_in_set",
    "ExpectColumnValuesToNotBeNull": "expect_column_values_to_not_be_null",
    "ExpectColumnValuesToNotBeOutliers": "expect_column_values_to_not_be_outliers",
    "ExpectColumnValuesToNotMatchLikePattern": "expect_column_values_to_not_match_like_pattern",
    "ExpectColumnValuesToNotMatchLikePatternList": "expect_column_values_to_not_match_like_pattern_list",
    "ExpectColumnValuesToNotMatchRegex": "expect_column_values_to_not_match_regex",
    "ExpectColumnValuesToNotMatchRegexList": "expect_column_values_to_not_match_regex_list",
    "ExpectCompoundColumnsToBeUnique": "expect_compound_columns_to_be_unique",
    "ExpectMulticolumnSumToEqual": "expect_multicolumn_sum_to_equal",
    "ExpectMulticolumnValuesToBeEqual": "expect_multicolumn_values_to_be_equal",
    "ExpectQueryResultsToMatchComparison": "expect_query_results_to_match_comparison",
    "ExpectSelectColumnValuesToBeUniqueWithinRecord": "expect_select_column_values_to_be_unique_within_record",  # noqa: E501
    "ExpectTableColumnCountToBeBetween": "expect_table_column_count_to_be_between",
    "ExpectTableColumnCountToEqual": "expect_table_column_count_to_equal",
    "ExpectTableColumnsToMatchOrderedList": "expect_table_columns_to_match_ordered_list",
    "ExpectTableColumnsToMatchSet": "expect_table_columns_to_match_set",
    "ExpectTableRowCountToBeBetween": "expect_table_row_count_to_be_between",
    "ExpectTableRowCountToEqual": "expect_table_row_count_to_equal",
    "ExpectTableRowCountToEqualOtherTable": "expect_table_row_count_to_equal_other_table",
}
"""The expectation's name of each class in ``gx.expectations``."""
