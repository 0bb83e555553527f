"""A release of a copy of this repository: planned, refused, made, and looked at."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from distribution.release import texts
from tests.support.processes import ROOT

pytestmark = pytest.mark.long

ADDRESS = "https://host.example/owner/medallion"
GIT = shutil.which("git") or "git"


def git(folder: Path, *words: str) -> str:
    """What git prints."""
    return subprocess.run(
        [GIT, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def release(folder: Path, version: str, *options: str) -> subprocess.CompletedProcess[str]:
    """``make release`` without make."""
    words = [sys.executable, "-m", "distribution.release", version, "--repository", ADDRESS, *options]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def version() -> str:
    """The next minor version."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    major, minor, _ = texts.version_of(project).split(".")
    return f"{major}.{int(minor) + 1}.0"


@pytest.fixture
def copy(tmp_path: Path, version: str) -> Path:
    """A repository with the files of this one, as they are in the work tree, before the release."""
    folder = tmp_path / "copy"
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).exists() and not name.startswith("distribution/bench/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    former = texts.version_of((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    upgrade = folder / "docs" / "install" / "upgrade.md"
    upgrade.write_text(f"{upgrade.read_text(encoding='utf-8')}\n## From {former}\n", encoding="utf-8")
    changelog = folder / "CHANGELOG.md"
    unreleased = changelog.read_text(encoding="utf-8").replace(
        "## Unreleased\n", "## Unreleased\n\n### Added\n- X.\n", 1
    )
    changelog.write_text(unreleased, encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "someone")
    git(folder, "config", "user.email", "someone@host.example")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All")
    return folder


def with_golden_copy(folder: Path, version: str) -> None:
    """The repository as it is after the steps of texts and of the golden copy, which takes five minutes."""
    project, changelog = folder / "pyproject.toml", folder / "CHANGELOG.md"
    project.write_text(texts.with_version(project.read_text(encoding="utf-8"), version), encoding="utf-8")
    today = datetime.now(UTC).date()
    changelog.write_text(texts.dated(changelog.read_text(encoding="utf-8"), version, today), encoding="utf-8")
    git(folder, "commit", "--quiet", "--all", "--message", f"Release {version}")
    manifest = json.dumps({"version": version, "commit": git(folder, "rev-parse", "HEAD")}).encode()
    with tarfile.open(folder / "tests" / "golden" / f"{version}.tar.xz", "w:xz") as archive:
        member = tarfile.TarInfo("manifest.json")
        member.size = len(manifest)
        archive.addfile(member, io.BytesIO(manifest))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", f"Golden copy of {version}")


def test_a_plan_says_what_is_to_do_and_changes_nothing(copy: Path, version: str) -> None:
    before = git(copy, "rev-parse", "HEAD")
    planned = release(copy, version, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert re.findall(r"^to do +(\w+)", planned.stdout, re.MULTILINE) == ["texts", "golden", "files", "tag"]
    assert (git(copy, "rev-parse", "HEAD"), git(copy, "status", "--porcelain"), git(copy, "tag")) == (
        before,
        "",
        "",
    )
    far = release(copy, "7.0.0", "--plan")
    assert far.returncode == 1
    assert "7.0.0 does not follow" in far.stderr
    (copy / "README.md").write_text("changed", encoding="utf-8")
    assert "README.md" in release(copy, version).stderr


def test_a_release_is_built_listed_stated_and_tagged(copy: Path, version: str, tmp_path: Path) -> None:
    with_golden_copy(copy, version)
    done = release(copy, version, "--output", str(tmp_path / "files"))
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(done|doing) +(\w+)", done.stdout, re.MULTILINE) == [
        ("done", "texts"),
        ("done", "golden"),
        ("doing", "files"),
        ("doing", "tag"),
    ]
    files = {path.name: path for path in (tmp_path / "files").iterdir()}
    name = f"medallion_lakehouse-{version}"
    wheel, sdist = f"{name}-py3-none-any.whl", f"{name}.tar.gz"
    parts = [f"medallion-lakehouse-{version}{end}" for end in (".cdx.json", "-notes.md", ".intoto.json")]
    assert set(files) == {wheel, sdist, *parts, "SHA256SUMS"}
    sums = dict(line.split("  ")[::-1] for line in files["SHA256SUMS"].read_text().splitlines())
    assert sums == {
        each: hashlib.sha256(path.read_bytes()).hexdigest()
        for each, path in files.items()
        if each != "SHA256SUMS"
    }
    stated = json.loads(files[parts[2]].read_text())
    assert {one["name"]: one["digest"]["sha256"] for one in stated["subject"]} == {
        each: sums[each] for each in (wheel, sdist, *parts[:2])
    }
    commit = stated["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"]
    assert commit == git(copy, "rev-parse", f"v{version}^{{commit}}") == git(copy, "rev-parse", "HEAD")
    assert files[parts[1]].read_text().startswith(f"# {version}\n\n### Added\n- X.\n")
    with zipfile.ZipFile(files[wheel]) as opened:
        described = [opened.read(f"{name}.dist-info/METADATA").decode()]
    with tarfile.open(files[sdist]) as archive:
        told = archive.extractfile(f"{name}/PKG-INFO")
        assert told is not None
        described.append(told.read().decode())
        assert {(one.uid, one.gid, one.uname) for one in archive.getmembers()} == {(0, 0, "")}
    for text in described:
        assert f"\nProject-URL: Source, {ADDRESS}\n" in text
        assert f"({ADDRESS}/raw/v{version}/docs/flow.svg)" in text
        assert "](docs/" not in text
    again = release(copy, version)
    assert again.returncode == 1
    assert f"v{version} is there" in again.stderr


def test_code_that_changed_after_the_golden_copy_is_not_released(copy: Path, version: str) -> None:
    with_golden_copy(copy, version)
    (copy / "tests" / "more.txt").write_text("of the tests alone", encoding="utf-8")
    git(copy, "add", "--all")
    git(copy, "commit", "--quiet", "--message", "Tests")
    assert release(copy, version, "--plan").returncode == 0
    (copy / "common" / "errors.py").write_text("changed", encoding="utf-8")
    git(copy, "commit", "--quiet", "--all", "--message", "Code")
    refused = release(copy, version, "--plan")
    assert refused.returncode == 1
    assert f"{version}.tar.xz was written by commit" in refused.stderr
