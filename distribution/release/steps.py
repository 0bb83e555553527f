"""The steps of a release, in order: what each finds, and what it does. A step that is done is skipped."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from distribution.release import parts, texts
from distribution.release.build import ReleaseError, build_twice
from distribution.release.git import Repository
from distribution.release.provenance import Build, sha256, statement

NAME = "medallion-lakehouse"
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-java.lock", "common/java/jars.lock")
CHECKSUMS = "SHA256SUMS"
_TOOLS = ("setuptools", "wheel")


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: What it is about.
        is_done: Whether there is nothing to do.
        words: What is there, or what will be done.
        act: Does it.
    """

    name: str
    is_done: bool
    words: str
    act: Callable[[], None] = lambda: None


class Release:
    """The release of one version.

    Attributes:
        version: The version.
        tag: Its tag.
        repository: The repository.
        output: Folder of the files.
        address: Address of the repository on a code host; empty: none.
    """

    def __init__(self, version: str, repository: Repository, output: Path, address: str) -> None:
        self.version, self.tag = version, f"v{version}"
        self.repository, self.output, self.address = repository, output, address.rstrip("/")

    def steps(self) -> Iterator[Step]:
        """Each step, looked at when the one before it has been done.

        Raises:
            ReleaseError: The tree is not one that can be released.
        """
        self._refuse()
        yield self._texts()
        yield self._golden()
        yield Step("files", is_done=False, words=f"built twice, into {self.output}", act=self._files)
        yield Step("tag", is_done=False, words=self.tag, act=self._tag)

    def _refuse(self) -> None:
        if self.repository.has_tag(self.tag):
            raise ReleaseError(f"{self.tag} is there: a version is released once. Name the next one.")
        if changes := self.repository.changes:
            shown = "\n  ".join(changes[:10])
            raise ReleaseError(f"these files differ from the commit; commit them first:\n  {shown}")
        upgrade = self._read("docs/install/upgrade.md")
        changelog = self._read("CHANGELOG.md")
        is_dated = bool(texts.section(changelog, self.version))
        last = texts.former_version(changelog, self.version)
        if not texts.follows(self.version, last):
            raise ReleaseError(f"{self.version} does not follow {last}, the newest release in CHANGELOG.md.")
        if not is_dated and not texts.section(changelog, "Unreleased"):
            raise ReleaseError("CHANGELOG.md has nothing under Unreleased: there is nothing to release.")
        if f"## From {last}" not in upgrade:
            raise ReleaseError(
                f"docs/install/upgrade.md has no section 'From {last}': say what a user must do."
            )

    def _texts(self) -> Step:
        is_set = texts.version_of(self._read("pyproject.toml")) == self.version
        is_dated = bool(texts.section(self._read("CHANGELOG.md"), self.version))
        is_done = is_set and is_dated
        words = f"version {self.version}, its section of the changelog dated"
        return Step("texts", is_done, words if is_done else f"{words}, and a commit", self._write_texts)

    def _write_texts(self) -> None:
        day = datetime.now(UTC).date()
        self._write("pyproject.toml", texts.with_version(self._read("pyproject.toml"), self.version))
        changelog = self._read("CHANGELOG.md")
        if not texts.section(changelog, self.version):
            self._write("CHANGELOG.md", texts.dated(changelog, self.version, day))
        self.repository.commit_all(f"Release {self.version}")

    def _golden(self) -> Step:
        archive = self._archive
        words = f"tables and checkpoints of this code in {archive.relative_to(self.repository.root)}"
        if not archive.exists():
            return Step(
                "golden copy",
                is_done=False,
                words=f"{words}, written and committed: five minutes",
                act=self._write_golden,
            )
        written_by = self._manifest()["commit"]
        if written_by != (newest := self.repository.newest_of_the_code):
            raise ReleaseError(
                f"{archive.name} was written by commit {written_by[:12]}, and the code has changed since "
                f"({newest[:12]}). It is of no release yet: delete it, commit, and it is written again."
            )
        return Step("golden copy", is_done=True, words=words)

    @property
    def _archive(self) -> Path:
        return self.repository.root / "tests" / "golden" / f"{self.version}.tar.xz"

    def _manifest(self) -> dict[str, Any]:
        with tarfile.open(self._archive) as archive:
            file = archive.extractfile("manifest.json")
            assert file is not None  # noqa: S101  # each archive has it
            found: dict[str, Any] = json.load(file)
        if found["version"] != self.version:
            raise ReleaseError(f"{self._archive.name} says that it is of {found['version']}.")
        return found

    def _write_golden(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tests.golden.write", self.version], cwd=self.repository.root, check=False
        )
        if done.returncode:
            raise ReleaseError("the golden copy was not written: see above.")
        self.repository.commit_all(f"Golden copy of {self.version}")

    def _files(self) -> None:
        if self.output.exists() and any(self.output.iterdir()):
            raise ReleaseError(f"{self.output} is not empty: name another folder with --output.")
        began = datetime.now(UTC)
        files = build_twice(self.repository, self.address, self.output)
        locked = tuple(parts.packages(self._read("requirements.lock")))
        jars = self._read("common/java/jars.lock")
        bill = parts.bill_of_materials(NAME, self.version, locked, jars, self.repository.committed_at)
        files.append(self._add(f"{NAME}-{self.version}.cdx.json", _json(bill)))
        notes = texts.section(self._read("CHANGELOG.md"), self.version)
        files.append(self._add(f"{NAME}-{self.version}-notes.md", f"# {self.version}\n\n{notes}\n"))
        digests = {file.name: sha256(file) for file in files}
        made = statement(self._build(began), digests)
        files.append(self._add(f"{NAME}-{self.version}.intoto.json", _json(made)))
        lines = sorted(f"{sha256(file)}  {file.name}\n" for file in files)
        self._add(CHECKSUMS, "".join(lines))

    def _build(self, began: datetime) -> Build:
        root = self.repository.root
        tools = {name: metadata.version(name) for name in _TOOLS}
        return Build(
            version=self.version,
            tag=self.tag,
            commit=self.repository.commit,
            repository=self.address,
            began=began,
            ended=datetime.now(UTC),
            tools={"python": ".".join(map(str, sys.version_info[:3])), **tools},
            locks={path: sha256(root / path) for path in LOCKS},
        )

    def _tag(self) -> None:
        sums = (self.output / CHECKSUMS).read_text(encoding="utf-8")
        self.repository.tag(self.tag, f"{NAME} {self.version}\n\n{sums}")

    def _read(self, path: str) -> str:
        return (self.repository.root / path).read_text(encoding="utf-8")

    def _write(self, path: str, text: str) -> None:
        (self.repository.root / path).write_text(text, encoding="utf-8")

    def _add(self, name: str, text: str) -> Path:
        path = self.output / name
        path.write_text(text, encoding="utf-8")
        return path


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
