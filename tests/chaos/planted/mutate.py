"""Small changes of the sources, drawn by a seed: a comparison turned, a constant moved, a call dropped, ….

A mutant is one line of a file in the place of another one. It is found again by its text and its function, so
that lines above it may come and go.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

_TURNED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_WEIGHTS = {"comparison": 10, "constant": 5, "connective": 4, "call": 5, "except": 2}
"""How often a kind of change is drawn."""
_DECLARED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change.

    Attributes:
        seed: What it was drawn by; of those that need Spark with an ``s`` before its number.
        kind: One of ``comparison``, ``constant``, ``connective``, ``call`` and ``except``.
        file: The file.
        function: The function or method, without nested ones; empty for what runs at import.
        line: The number of the line when it was drawn.
        old: The line without the blanks around it.
        new: The line in its place.
        caught_by: The test that failed, ``import``: the module could not be imported, ``hangs``; empty: none.
    """

    seed: str
    kind: str
    file: str
    function: str
    line: str
    old: str
    new: str
    caught_by: str = ""

    @property
    def is_of_spark(self) -> bool:
        """Whether it is tried in a session of Spark's."""
        return self.seed.startswith("s")

    @property
    def place(self) -> tuple[bool, int]:
        """Its place in the table."""
        return self.is_of_spark, int(self.seed.removeprefix("s"))

    @property
    def why(self) -> str:
        """What it does, in words."""
        return f"{self.old} -> {self.new}"

    def planted_in(self, text: str) -> str:
        """The text of its file, with the change.

        Raises:
            ValueError: The function has no such line any more.
        """
        lines = text.split("\n")
        there = functions_of(ast.parse(text))
        known = (at for at in range(len(lines)) if there.get(at + 1, "") == self.function)
        same = [at for at in known if lines[at].strip() == self.old]
        if not same:
            raise ValueError(f"{self.file} has no such line any more: {self.old}")
        at = min(same, key=lambda each: abs(each + 1 - int(self.line)))
        lines[at] = lines[at].replace(self.old, self.new)
        return "\n".join(lines)


def functions_of(tree: ast.Module) -> dict[int, str]:
    """The outermost function or method of each line; lines outside of all are left out."""
    found: dict[int, str] = {}

    def walk(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                walk(child, f"{name}{child.name}.")
            elif isinstance(child, _DECLARED):
                begin = child.body[0].lineno
                found.update(dict.fromkeys(range(begin, (child.end_lineno or begin) + 1), name + child.name))
            else:
                walk(child, name)

    walk(tree, "")
    return found


def mutants_of(file: str, text: str, seed: str) -> list[Mutant]:
    """All changes of a file."""
    tree, lines = ast.parse(text), text.split("\n")
    functions = functions_of(tree)
    found = []
    for line, (kind, begin, end, new) in _changes(tree, lines):
        whole = lines[line - 1]
        changed = whole.encode()[:begin] + new.encode() + whole.encode()[end:]
        old, after = whole.strip(), changed.decode().strip()
        if old != after and "noqa" not in old and "\t" not in whole:
            found.append(Mutant(seed, kind, file, functions.get(line, ""), str(line), old, after))
    return found


_Change = tuple[str, int, int, str]
"""Kind, first and last byte of the part of a line that is replaced, and the new part."""


def _changes(tree: ast.Module, lines: Sequence[str]) -> Iterator[tuple[int, _Change]]:
    """The changes, each with the number of its line."""
    skipped, caught = _without_effect(tree), _caught(tree)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if id(node) in skipped or not line or getattr(node, "end_lineno", line) != line:
            continue
        if isinstance(node, ast.expr | ast.Expr):
            found = _except(node) if id(node) in caught else _change(node, lines[line - 1].encode())
            if found is not None:
                yield line, found


def _change(node: ast.expr | ast.Expr, line: bytes) -> _Change | None:
    begin, end = node.col_offset, node.end_col_offset or 0
    found: _Change | None = None
    match node:
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            found = _turned("comparison", line, left, right, _TURNED[type(sign)])
        case ast.BoolOp(op=operator, values=[left, right]):
            words = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
            found = _turned("connective", line, left, right, words)
        case ast.UnaryOp(op=ast.Not()):
            found = "connective", begin, begin + len("not "), ""
        case ast.Constant(value=bool(value)):
            found = "constant", begin, end, repr(not value)
        case ast.Constant(value=int(value) | float(value)):
            found = "constant", begin, end, repr(value + 1)
        case ast.Expr(value=ast.Call()):
            found = "call", begin, end, "pass"
    return found


def _turned(
    kind: str, line: bytes, left: ast.expr, right: ast.expr, words: tuple[str, str]
) -> _Change | None:
    """Another word between two operands."""
    begin, end = left.end_col_offset or 0, right.col_offset
    between = line[begin:end].decode()
    return (kind, begin, end, between.replace(*words)) if between.count(words[0]) == 1 else None


def _except(node: ast.expr | ast.Expr) -> _Change:
    return "except", node.col_offset, node.end_col_offset or 0, "Exception"


def _caught(tree: ast.Module) -> set[int]:
    """What ``except`` names."""
    return {id(node.type) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type}


def _without_effect(tree: ast.Module) -> set[int]:
    """Parts of which a change is none, or none that a test should see: annotations, texts."""
    found: set[int] = set()
    for node in ast.walk(tree):
        roots: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign):
            roots.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            roots += [each.annotation for each in (*given.args, *given.kwonlyargs, *given.posonlyargs)]
            roots += [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name):
            roots.append(node.type if node.type.id in {"Exception", "BaseException"} else None)
        elif isinstance(node, ast.FormattedValue):
            roots.append(node)
        found |= {id(each) for root in roots if root is not None for each in ast.walk(root)}
    return found


def draw(seed: str, files: Sequence[tuple[str, frozenset[str]]], root: Path) -> Mutant:
    """A mutant by its number: first the kind, then the file, then the place.

    Args:
        seed: The number.
        files: Files, each with the functions in which a test may notice a change.
        root: Where they are.
    """
    random = Random(seed)  # noqa: S311  # it has to be the same each time
    (kind,) = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
    while True:
        file, functions = random.choice(files)
        text = (root / file).read_text(encoding="utf-8")
        found = [each for each in mutants_of(file, text, seed) if each.function in functions]
        if own := [each for each in found if each.kind == kind]:
            return random.choice(own)
