"""Regular expressions that Spark and DuckDB evaluate alike."""

from __future__ import annotations

import re
import warnings


def pattern_fault(pattern: str) -> str | None:
    """Why a regular expression cannot be evaluated alike by Spark and DuckDB; None if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        return f"is no regular expression: {error}"
    plain = re.sub(r"\\\\", "", pattern)
    if found := re.search(r"\(\?(?:=|!|<=|<!|>)", plain):
        return f"has {found.group()!r}; lookaround and atomic groups are not available in DuckDB"
    if re.search(r"\\[1-9]|\(\?P=", plain):
        return "has a back reference, which is not available in DuckDB"
    if re.search(r"[*+?}]\+", re.sub(r"\[[^\]]*\]|\\.", "x", plain)):
        return "has a possessive quantifier, which is not available in DuckDB"
    return None
