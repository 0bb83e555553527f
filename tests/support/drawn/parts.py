"""Drawn text as a tree of parts, so that a statement that fails can be made smaller part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Part:
    """A piece of a text.

    Attributes:
        parts: Texts and smaller pieces, in their order.
        instead: What may stand in its place in a smaller text; an empty text leaves it away.
    """

    parts: tuple[str | Part, ...]
    instead: tuple[str | Part, ...] = ()

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


def part(*parts: str | Part, instead: tuple[str | Part, ...] = ()) -> Part:
    """A piece of these parts."""
    return Part(parts, instead)


def optional(*parts: str | Part) -> Part:
    """A piece that can be left away."""
    return Part(parts, ("",))


def filled(template: str, draw: Callable[[str], str | Part]) -> Part:
    """A template with each ``{word}`` replaced by what ``draw`` gives for the word; ``{{`` is a bracket."""
    found: list[str | Part] = []
    text = template.replace("{{", "\0").replace("}}", "\1")
    for place, piece in enumerate(text.replace("}", "{").split("{")):
        found.append(draw(piece) if place % 2 else piece.replace("\0", "{").replace("\1", "}"))
    return Part(tuple(found))


def joined(parts: list[Part], between: str) -> Part:
    """The pieces with a text between them."""
    found: list[str | Part] = []
    for place, each in enumerate(parts):
        found += [between, each] if place else [each]
    return Part(tuple(found))


def smaller(root: Part) -> Iterator[Part]:
    """The texts in which one piece is replaced by something smaller, the outermost pieces first."""
    yield from (each if isinstance(each, Part) else Part((each,)) for each in root.instead)
    for place, each in enumerate(root.parts):
        if isinstance(each, Part):
            for found in smaller(each):
                yield replace(root, parts=(*root.parts[:place], found, *root.parts[place + 1 :]))


def smallest(root: Part, fails: Callable[[Part], bool], most_tries: int = 120) -> Part:
    """The smallest text found for which ``fails`` is true, as it is of ``root``."""
    tries = 0
    again = True
    while again:
        again = False
        for each in smaller(root):
            tries += 1
            if tries > most_tries:
                return root
            if len(str(each)) < len(str(root)) and fails(each):
                root, again = each, True
                break
    return root
