r"""Regular expressions are Java's: what is none, and which ones DuckDB matches exactly as Spark does. Pure.

DuckDB's are RE2's. Letters, sets, groups and repetitions are the same in both. ``.`` and ``$`` are not (Java
knows more ends of a line), nor ``\s`` (Java's has the vertical tab): they are written in other words. Flags,
classes by name and whatever looks around are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from common.errors import SqlError
from common.sql.quoting import standard_text

_SPACES = r"\t\n\x0B\f\r "
_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
"""What ends a line for Java."""
_LAST_END = rf"(?:\r\n|[{_ENDS}])\z"

_ESCAPED = r"\\[\\.^$|?*+(){}\[\]\- /@#%&=:;,!<>~'\"`tnrfdDwW]"
_IN_SET = rf"(?:{_ESCAPED}|\\s|[^\\\[\]&^\-])"
_PART = re.compile(
    rf"(?P<set>\[\^?-?(?:{_IN_SET}(?:-{_IN_SET})?)+-?\])"
    r"|(?P<repeated>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??(?![*+?{]))"
    r"|(?P<open>\((?:\?:)?|\|)"
    rf"|(?P<same>{_ESCAPED}|[^\\.$|?*+(){{}}\[\]^])"
    r"|(?P<close>\))"
    r"|(?P<place>\\[Az]|\^)"
    r"|(?P<space>\\[sS])"
    r"|(?P<dot>\.)"
    r"|(?P<end>\$(?=\Z|\|))",
    re.DOTALL,
)
_IN_RE2 = {r"\s": f"[{_SPACES}]", r"\S": f"[^{_SPACES}]", ".": f"[^{_ENDS}]", "$": r"\z"}
_RANGE_OF_A_CLASS = re.compile(r"\\[dDwWs]-[^\]]|[^\[^]-\\[dDwWs]", re.DOTALL)


def pattern_fault(pattern: str) -> str | None:
    """Why a text is no regular expression of Java's, by brackets and repetitions; None if it may be one."""
    plain = re.sub(r"\\Q.*?(?:\\E|\Z)|\\.", "x", pattern, flags=re.DOTALL)
    plain = re.sub(r"(\[\^?)\]", r"\1x", plain)  # as the first of a set it is a letter
    if re.search(r"\(\?\w*x", plain):
        return None  # comments may hold anything
    sets = groups = 0
    for place, letter in enumerate(plain):
        if letter == "[" or (letter == "]" and sets):
            sets += 1 if letter == "[" else -1
        elif sets:
            continue
        elif letter in "()":
            groups += 1 if letter == "(" else -1
            if groups < 0:
                return "is no regular expression: a ) closes nothing"
        elif (
            letter in "*+?"
            and (place == 0 or plain[place - 1] in "|(")
            and plain[place - 1 : place] + letter != "(?"
        ):
            return f"is no regular expression: nothing stands before {letter} that it repeats"
    if plain.endswith("\\"):
        return r"is no regular expression: nothing stands behind the last \ "
    if sets or groups:
        return f"is no regular expression: a {'[' if sets else '('} is never closed"
    return None


def in_duckdb(text: str, pattern: str) -> str:
    """A condition of DuckDB: a text has a match of a regular expression, as Spark's RLIKE finds it.

    Raises:
        SqlError: DuckDB may match otherwise.
    """
    found = "".join(_in_re2(pattern))
    once = f"regexp_matches({text}, {standard_text(found)})"
    if re.search(r"\$(?:\Z|\|)", pattern) is None:
        return once
    # Java's $ also matches before a last end of a line.
    without = f"regexp_replace({text}, {standard_text(_LAST_END)}, '')"
    return f"({once} OR regexp_matches({without}, {standard_text(found)}))"


def _in_re2(pattern: str) -> Iterator[str]:
    at, depth, before = 0, 0, "open"
    while at < len(pattern):
        part = _PART.match(pattern, at)
        kind, written = (part.lastgroup, part.group()) if part else ("", pattern[at:])
        depth += {"(": 1, ")": -1}.get(written[0], 0) if kind in {"open", "close"} else 0
        is_alone = kind == "repeated" and before in {"open", "place", "end"}
        is_inner = kind == "end" and (depth or r"\z" in pattern)
        if (
            part is None
            or is_alone
            or is_inner
            or depth < 0
            or (kind == "set" and _RANGE_OF_A_CLASS.search(written))
        ):
            raise SqlError(
                f"has the regular expression {pattern}, which DuckDB may match otherwise from {written} on"
            )
        if kind == "set":
            yield re.sub(r"\\(.)", lambda one: _SPACES if one[1] == "s" else one[0], written, flags=re.DOTALL)
        else:
            yield _IN_RE2.get(written if kind != "same" else "", written)
        at, before = at + len(part.group()), kind or ""
    if depth:
        raise SqlError(f"has the regular expression {pattern}, whose brackets do not match")
