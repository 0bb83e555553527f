"""Samples the files of a folder for ``medallion init``: which are read, their format and their records."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from common.errors import UsageError
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.propose import csv_lines
from orchestration.author.propose.pipeline_source import SampledFiles

_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".parquet", ".avro", ".orc"), "typed"),
}
_COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
_NAMED = 5


@dataclass
class FolderSample:
    """What init knows of a folder."""

    files: SampledFiles  # how they are declared
    messages: list[Sampled] = field(default_factory=list)  # their first records
    remarks: list[str] = field(default_factory=list)  # what is odd about some of them, in sentences
    chosen: Sequence[Path] = ()

    def values(self, most: int) -> Iterator[bytes | None]:
        """The records of all files, read again by each call, up to a number of them."""
        read = _records if self.files.format == "csv" else _lines
        texts = (line.rstrip("\r\n") for file in self.chosen for line in read(file))
        return (text.encode() for text in islice(texts, most) if text)


def sample_folder(folder: Path, shown: str, count: int) -> FolderSample:
    """The first records of the files of a folder, which are those of its most frequent format.

    Args:
        shown: The folder as the pipeline file names it.

    Raises:
        UsageError: It has no file that can be sampled; says why.
    """
    every = [file for file in sorted(folder.rglob("*")) if file.is_file() and not _is_hidden(file, folder)]
    kinds = Counter(kind for file in every if (kind := _FORMATS.get(_ending(file))))
    if not kinds:
        known = ", ".join(sorted(_FORMATS))
        raise UsageError(f"--from-file {folder}: no file there ends with one of {known} (or such a .gz).")
    kind = kinds.most_common(1)[0][0]
    if kind == "typed":
        raise UsageError(
            f"--from-file {folder}: most files are Parquet, ORC or Avro, which init does not read. Declare "
            f'Files("history", path="{shown}", format="parquet") yourself (docs/author/files.md).'
        )
    chosen = [file for file in every if _FORMATS.get(_ending(file)) == kind]
    endings = {"".join(file.suffixes[-1:]) for file in chosen}
    only = "" if len(chosen) == len(every) else f"*{endings.pop()}" if len(endings) == 1 else ""
    found = FolderSample(SampledFiles(shown, kind, only), chosen=chosen)
    if len(chosen) < len(every) and not only:
        found.remarks.append("the folder has files of several kinds: say with only=… which are read")
    texts = _of_csv(chosen, folder, count, found) if kind == "csv" else _of_lines(chosen, count)
    found.messages = [Sampled(0, 0, text.encode()) for text in texts]
    return found


def _of_lines(files: Sequence[Path], count: int) -> list[str]:
    lines = (line.rstrip("\r\n") for file in files for line in _lines(file))
    return list(islice((line for line in lines if line), count))


def _of_csv(files: Sequence[Path], folder: Path, count: int, found: FolderSample) -> list[str]:
    """Records of all files; the first line of the first file, and of no other, if it names the columns."""
    texts: list[str] = []
    lines: csv_lines.Lines | None = None
    for file in files:
        more = list(islice(_records(file), max(1, count - len(texts))))
        if lines is None:
            texts += more
            lines = csv_lines.read(texts) if len(texts) > 1 else None
        elif not lines.header:
            texts += more
        elif more and more[0] == texts[0]:
            texts += more[1:]
        elif more and (text := _difference(more[0], lines)):
            found.remarks.append(f"{file.relative_to(folder)} {text}")
    if len(found.remarks) > _NAMED:
        found.remarks[_NAMED:] = [f"and {len(found.remarks) - _NAMED:,} files more like these"]
    return texts[:count]


def _difference(first: str, lines: csv_lines.Lines) -> str:
    """What the first line of a file says that the first file's does not; empty if it names all columns."""
    row = next(csv.reader(io.StringIO(first), delimiter=lines.separator), [])
    names = {name.strip().lower() for name in row}
    missing = [name for name in lines.header if name.strip("\ufeff ").lower() not in names]
    if len(missing) == len(lines.header):
        return "has none of these names in its first line: it would be set aside whole"
    return (
        f"lacks {', '.join(missing)}: its lines would go to quarantine as missing_column" if missing else ""
    )


def _records(file: Path) -> Iterator[str]:
    """Lines; one that ends between quotes goes on with the next line."""
    begun = ""
    for line in _lines(file):
        begun += line
        if begun.count('"') % 2 == 0:
            if text := begun.rstrip("\r\n"):
                yield text
            begun = ""
    if begun:
        yield begun


def _lines(file: Path) -> Iterator[str]:
    opened: Callable[[Path], IO[bytes]] = _COMPRESSED.get(file.suffix.lower(), _plain)
    try:
        with opened(file) as content:
            yield from io.TextIOWrapper(content, encoding="utf-8-sig", errors="replace", newline="\n")
    except (OSError, EOFError) as error:
        raise UsageError(f"{file}: cannot be read ({error}).") from error


def _plain(file: Path) -> IO[bytes]:
    return file.open("rb")


def _ending(file: Path) -> str:
    name = file.name.lower()
    for compressed in _COMPRESSED:
        name = name.removesuffix(compressed)
    return Path(name).suffix


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part[0] in "._" for part in file.relative_to(folder).parts)
