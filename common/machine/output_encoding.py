"""Output on a terminal or file whose encoding lacks a character: a substitute is written, never an error."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Mapping

_SUBSTITUTES = dict(zip("·•●○◐■✓✗×…–—→←▶≥≤", "-**oo#+xx~--><>><", strict=True))  # noqa: RUF001  # the signs
_SUBSTITUTES |= dict.fromkeys("─━╸╺", "-") | dict.fromkeys("│", "|") | dict.fromkeys("├└", "+")
_SUBSTITUTES |= dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True))
"""ASCII characters of the same width for the signs in the engine's own output."""

_SIGNS, _ESCAPES = "medallion.signs", "medallion.escapes"


def substitute_unknown_characters(*, is_data: bool) -> None:
    r"""Have stdout and stderr write a substitute for each character that their encoding lacks.

    That is the character's escape in JSON's notation, such as ``\u00e9``: JSON output stays valid and keeps
    its values. Signs of the engine's own output get an ASCII sign instead.

    Args:
        is_data: Whether stdout is read by a program: every character then gets its escape there.
    """
    codecs.register_error(_SIGNS, lambda error: _substitute(error, _SUBSTITUTES))
    codecs.register_error(_ESCAPES, lambda error: _substitute(error, {}))
    for stream, handler in ((sys.stdout, _ESCAPES if is_data else _SIGNS), (sys.stderr, _SIGNS)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=handler)


def _substitute(error: UnicodeError, signs: Mapping[str, str]) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(signs.get(letter) or _escape(letter) for letter in lacking), error.end


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
