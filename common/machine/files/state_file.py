"""Small facts on disk: a value of a declared type in a JSON file, written whole, read by its type."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from common.machine.storage_folder import StorageFolder

ContentT = TypeVar("ContentT")


class StateFile(Generic[ContentT]):
    """Reads and writes files of one type: a dataclass, or a mapping of them by name.

    A field that a later version has added is ignored, and one that an earlier version did not write has its
    default. A file in a ``StorageFolder`` is flushed; one in a local folder is not, because what is in there
    only says what a process is doing.

    Args:
        indent: Spaces per level, for a file that people read too; None: one line.
    """

    def __init__(self, kind: type[ContentT], indent: int | None = None) -> None:
        self._kind, self._indent = kind, indent

    def write(self, folder: StorageFolder | Path, name: str, content: ContentT) -> None:
        """Write a file; readers see the old or the new one, never a part.

        Raises:
            OSError: The folder cannot be written.
        """
        data = self.text(content).encode()
        if isinstance(folder, StorageFolder):
            folder.write(name, data)
        else:
            replace_file(folder / name, data)

    def read(self, folder: StorageFolder | Path, name: str) -> ContentT | None:
        """The content of a file; None where there is none.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is damaged.
        """
        opened = folder if isinstance(folder, StorageFolder) else StorageFolder(str(folder))
        data = opened.read(name)
        return None if data is None else self.parse(data)

    def read_or_none(self, folder: StorageFolder | Path, name: str) -> ContentT | None:
        """As ``read``; None also where the file is damaged or cannot be read."""
        try:
            return self.read(folder, name)
        except (OSError, ValueError):
            return None

    def text(self, content: ContentT) -> str:
        """What a file of the content has; a table's property may have it, too."""
        return self._adapter.dump_json(content, indent=self._indent).decode()

    def parse(self, text: str | bytes) -> ContentT:
        """The content of a text.

        Raises:
            ValueError: It is damaged.
        """
        return self._adapter.validate_json(text)

    @cached_property
    def _adapter(self) -> TypeAdapter[ContentT]:
        return TypeAdapter(self._kind)  # at the first use: it costs every command some milliseconds


def replace_file(file: Path, data: bytes) -> None:
    """Replace a local file atomically; its folder is created.

    Raises:
        OSError: The folder cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(file)
