"""The repository that a release is made of: its commit, its tags, its files."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

_CODE = (".", ":!tests", ":!docs", ":!*.md")
"""What writes tables: a commit of the tests alone writes no other ones."""


class Repository:
    """A work tree and its history."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git = shutil.which("git") or "git"

    @property
    def commit(self) -> str:
        """Hash of the commit that is checked out."""
        return self._text("rev-parse", "HEAD")

    @property
    def committed_at(self) -> datetime:
        """When that commit was made, in UTC."""
        return datetime.fromtimestamp(int(self._text("log", "-1", "--format=%ct")), UTC)

    @property
    def changes(self) -> list[str]:
        """Files that differ from the commit, or that git does not know."""
        return self._text("status", "--porcelain").splitlines()

    @property
    def newest_of_the_code(self) -> str:
        """The newest commit that changed the product."""
        return self._text("log", "-1", "--format=%H", "--", *_CODE)

    @property
    def address(self) -> str:
        """Address of ``origin`` on a code host; empty if it is not one of the web."""
        try:
            found = self._text("remote", "get-url", "origin")
        except subprocess.CalledProcessError:
            return ""
        return found.removesuffix(".git") if found.startswith("https://") and "@" not in found else ""

    def has_tag(self, name: str) -> bool:
        """Whether a tag exists."""
        return bool(self._text("tag", "--list", name))

    def archive(self) -> bytes:
        """The commit's files as a tar archive."""
        return self._run("archive", "--format=tar", "HEAD").stdout

    def commit_all(self, message: str) -> None:
        """Commit every change."""
        self._run("add", "--all")
        self._run("commit", "--quiet", "--message", message)

    def tag(self, name: str, message: str) -> None:
        """Tag the commit."""
        self._run("tag", "--annotate", name, "--cleanup=verbatim", "--message", message)

    def _text(self, *words: str) -> str:
        return self._run(*words).stdout.decode().strip()

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([self._git, *words], cwd=self.root, capture_output=True, check=True)
