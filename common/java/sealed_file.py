"""Files that set-up makes, each with its sha256 in ``<file>.sha256``: a cut or changed one is noticed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from common.java.jar_lock import State


def seal(file: Path) -> None:
    """Write the sha256 of a file beside it.

    Raises:
        OSError: The file cannot be read, or its folder cannot be written.
    """
    draft = _seal_of(file).with_name(f".{file.name}.{os.getpid()}.sha256")
    draft.write_text(_digest(file) + "\n", encoding="ascii")
    draft.chmod(0o644)
    draft.replace(_seal_of(file))


def state_of(file: Path) -> State:
    """Whether a file is the one that was sealed; every byte of it is read."""
    try:
        found = _digest(file)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "altered"
    try:
        return "ok" if _seal_of(file).read_text(encoding="ascii").strip() == found else "altered"
    except (OSError, ValueError):
        return "altered"


def _seal_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
