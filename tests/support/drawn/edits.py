"""Drawn edits of SQL texts, and which texts have the same tokens: a lexer of Spark's SQL in a few lines.

White space and comments are no tokens, unless they stand in a literal or in a name in backquotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

_PIECE = re.compile(
    r"""
    (?P<comment> --(?:\\\n|[^\r\n])*\r?\n? | /\*(?!\+)(?:[^*/]|\*(?!/)|/(?!\*))*\*/ )
  | (?P<blank> \s+ )
  | (?P<text> [rR]'[^']*' | [rR]"[^"]*" | '(?:''|\\.|[^'\\])*' | "(?:""|\\.|[^"\\])*" )
  | (?P<name> `(?:``|[^`])*` | \w+(?:\.\w+)* )
  | (?P<sign> <=> | <> | != | == | <= | >= | \|\| | :: | -> | => | >>> | << | >> | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_NO_TOKENS = ("comment", "blank")
_BLANKS = (" ", "  ", "\n", "\t", " /* one */ ", " -- two\n", "\n\n    ", " /* it's */ ")

FUNCTIONS = (
    ("upper(", "lower("),
    ("min(", "max("),
    ("sum(", "avg("),
    ("count(distinct ", "count("),
    ("percentile_cont(", "percentile_disc("),
    ("floor(", "ceil("),
    ("rank()", "dense_rank()"),
    ("year(", "month("),
    ("ltrim(", "rtrim("),
    ("stddev_pop(", "stddev_samp("),
    ("date_add(", "date_sub("),
    (" union all ", " union "),
    (" left join ", " right join "),
    (" join ", " left join "),
    (" desc", " asc"),
    (" and ", " or "),
    (" = ", " <=> "),
    (" > ", " >= "),
    (" like ", " rlike "),
    ("concat_ws('  ',", "concat_ws(' ',"),
    ("'9G999D99'", "'0000.00'"),
    ("listagg(", "string_agg("),
    (" is null", " is not null"),
    ("exists (", "not exists ("),
    (" in (", " not in ("),
    (", ',')", ")"),
    ("cast(", "try_cast("),
    ("substring(", "left("),
)
"""Pieces that stand in each other's place."""


@dataclass(frozen=True)
class Edit:
    """A text before and after an edit, and what was done."""

    what: str
    before: str
    after: str

    @property
    def keeps_tokens(self) -> bool:
        """Whether both texts have the same tokens."""
        return tokens(self.before) == tokens(self.after)


def pieces(sql: str) -> list[tuple[str, str]]:
    """The pieces of a text, each with its kind; together they are the text."""
    return [(found.lastgroup or "", found[0]) for found in _PIECE.finditer(sql)]


def tokens(sql: str) -> list[str]:
    """The tokens of a text."""
    return [text for kind, text in pieces(sql) if kind not in _NO_TOKENS]


def draw_edit(random: Random, sql: str) -> Edit | None:
    """An edit of a text; None where the drawn one does not fit it."""
    edits = (
        _blanks,
        _in_literal,
        _literal,
        _comment,
        _brackets,
        _brackets,
        _more_brackets,
        _order,
        _alias,
        _function,
        _function,
        _literals_joined,
    )
    edit = random.choice(edits)
    after = edit(random, pieces(sql))
    return None if after is None or after == sql else Edit(edit.__name__.strip("_"), sql, after)


def _text(found: list[tuple[str, str]]) -> str:
    return "".join(text for _, text in found)


def _places(found: list[tuple[str, str]], *kinds: str) -> list[int]:
    return [place for place, (kind, _) in enumerate(found) if kind in kinds]


def _blanks(random: Random, found: list[tuple[str, str]]) -> str | None:
    """Other white space, and comments."""
    changed = [
        (kind, random.choice(_BLANKS) if kind == "blank" and random.random() < 0.5 else text)
        for kind, text in found
    ]
    return _text(changed)


def _in_literal(random: Random, found: list[tuple[str, str]]) -> str | None:
    """Another number of blanks inside of a literal."""
    texts = [place for place in _places(found, "text") if len(found[place][1]) > 2]
    if not texts:
        return None
    place = random.choice(texts)
    text = found[place][1]
    new = text.replace(" ", "  ", 1) if " " in text else f"{text[:-1]} {text[-1]}"
    return _text([*found[:place], ("text", new), *found[place + 1 :]])


def _literal(random: Random, found: list[tuple[str, str]]) -> str | None:
    """Another literal."""
    places = [
        place for place in _places(found, "text", "name") if re.fullmatch(r"\d+|'[a-z]*'", found[place][1])
    ]
    if not places:
        return None
    place = random.choice(places)
    kind, text = found[place]
    new = str(int(text) + 1) if text.isdigit() else f"{text[:-1]}b'"
    return _text([*found[:place], (kind, new), *found[place + 1 :]])


def _comment(random: Random, found: list[tuple[str, str]]) -> str | None:
    """A comment that ends with its line, with or without the line's end."""
    blanks = _places(found, "blank")
    if not blanks:
        return None
    place = random.choice(blanks)
    end = random.choice(["\n", " ", "\n "])
    return _text([*found[:place], ("comment", f" -- more{end}"), *found[place + 1 :]])


def _pairs(found: list[tuple[str, str]]) -> list[tuple[int, int]]:
    opened: list[int] = []
    pairs = []
    for place, (kind, text) in enumerate(found):
        if kind == "sign" and text == "(":
            opened.append(place)
        elif kind == "sign" and text == ")" and opened:
            pairs.append((opened.pop(), place))
    return pairs


def _is_call(found: list[tuple[str, str]], place: int) -> bool:
    return (
        place > 0
        and found[place - 1][0] == "name"
        and found[place - 1][1].lower() not in {"and", "or", "not", "where", "on"}
    )


def _brackets(random: Random, found: list[tuple[str, str]]) -> str | None:
    """One pair of brackets less."""
    pairs = [pair for pair in _pairs(found) if not _is_call(found, pair[0])]
    if not pairs:
        return None
    first, last = random.choice(pairs)
    return _text([("sign", " ") if place in {first, last} else piece for place, piece in enumerate(found)])


def _more_brackets(random: Random, found: list[tuple[str, str]]) -> str | None:
    """Brackets around what stands between two conditions."""
    words = [
        place
        for place, (kind, text) in enumerate(found)
        if kind == "name" and text.lower() in {"and", "or", "where", "on", "when"}
    ]
    if len(words) < 2:
        return None
    at = random.randrange(len(words) - 1)
    first, last = words[at], words[min(at + random.choice([1, 2]), len(words) - 1)]
    return f"{_text(found[: first + 1])} ({_text(found[first + 1 : last])}) {_text(found[last:])}"


def _order(random: Random, found: list[tuple[str, str]]) -> str | None:
    """Two operands exchanged."""
    names = [
        place
        for place in range(2, len(found) - 2)
        if found[place][1].lower() in {"and", "or", "=", "+", "-", "<", "||", "%", "*"}
        and found[place - 1][0] == found[place + 1][0] == "blank"
        and {found[place - 2][0], found[place + 2][0]} <= {"name", "text"}
    ]
    if not names:
        return None
    place = random.choice(names)
    changed = list(found)
    changed[place - 2], changed[place + 2] = found[place + 2], found[place - 2]
    return _text(changed)


def _alias(random: Random, found: list[tuple[str, str]]) -> str | None:
    """A name that stands in front of a point, another one everywhere."""
    names = {
        text.split(".")[0] for kind, text in found if kind == "name" and "." in text and text[0].isalpha()
    }
    names -= {"silver", "gold"}
    if not names:
        return None
    name, new = random.choice(sorted(names)), random.choice(["a", "b", "zz"])
    changed = [
        (kind, re.sub(rf"^{name}(?=\.|$)", new, text) if kind == "name" else text) for kind, text in found
    ]
    return _text(changed)


def _function(random: Random, found: list[tuple[str, str]]) -> str | None:
    """A function or an operator of the same class."""
    text = _text(found)
    fits = [pair[::way] for pair in FUNCTIONS for way in (1, -1) if pair[::way][0] in text]
    if not fits:
        return None
    one, other = random.choice(fits)
    at = random.choice([found.start() for found in re.finditer(re.escape(one), text)])
    return text[:at] + other + text[at + len(one) :]


def _literals_joined(random: Random, found: list[tuple[str, str]]) -> str | None:
    """A literal in two, or with its quotes written otherwise."""
    texts = [place for place in _places(found, "text") if re.fullmatch(r"'[a-z ]{2,}'", found[place][1])]
    if not texts:
        return None
    place = random.choice(texts)
    text = found[place][1]
    new = random.choice([f"{text[:2]}''{text[2:]}", f"{text[:2]}' '{text[2:]}", f'"{text[1:-1]}"'])
    return _text([*found[:place], ("text", new), *found[place + 1 :]])
