"""The list of a release's parts, and the statement of what was built of what."""

from __future__ import annotations

import json
import re
import zipfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.java.jar_cache import jar_path, locked
from distribution.release.parts import LICENCES, bill_of_materials, packages
from distribution.release.provenance import Build, statement

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
JARS = (ROOT / "common" / "java" / "jars.lock").read_text(encoding="utf-8")
WHEN = datetime(2026, 12, 1, 12, tzinfo=UTC)


def test_every_package_of_the_lock_is_a_part_with_its_hashes() -> None:
    found = list(packages(LOCK))
    assert [f"{one.name}=={one.version}" for one in found] == re.findall(
        r"^\S+==[^\s;\\]+", LOCK, re.MULTILINE
    )
    assert sum(len(one.sha256) for one in found) == LOCK.count("--hash=sha256:")
    assert all(one.sha256 for one in found)
    only = {one.name: one.only for one in found if one.only}
    assert only["colorama"] == "sys_platform == 'win32'"


def test_the_document_is_valid_cyclonedx_and_the_same_each_time() -> None:
    """Judged by the schema of CycloneDX 1.6, strictly."""
    schema = pytest.importorskip("cyclonedx.schema")
    validation = pytest.importorskip("cyclonedx.validation.json")
    found = bill_of_materials("medallion-lakehouse", "0.2.0", list(packages(LOCK)), JARS, WHEN)
    text = json.dumps(found)
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"library"', '"book"')) is not None
    assert text == json.dumps(
        bill_of_materials("medallion-lakehouse", "0.2.0", list(packages(LOCK)), JARS, WHEN)
    )


def test_every_part_has_a_licence_and_every_jar_its_hash() -> None:
    """The licence of a package that is not installed, as one of another platform, is not known."""
    found = bill_of_materials("medallion-lakehouse", "0.2.0", list(packages(LOCK)), JARS, WHEN)["components"]
    without = [one["name"] for one in found if "licenses" not in one]
    installed = {distribution.name.lower().replace("_", "-") for distribution in metadata.distributions()}
    assert set(without) & installed == set()
    jars = {one["purl"]: one["hashes"][0]["content"] for one in found if one["purl"].startswith("pkg:maven")}
    rows = [line.split("\t") for line in JARS.splitlines()[1:]]
    assert jars == {f"pkg:maven/{row[1]}/{row[2]}@{row[3]}": row[4] for row in rows}


def test_the_licences_of_jars_are_those_that_the_jars_name() -> None:
    """Where a jar names one in its manifest or its pom; the jars are those of this machine's cache."""
    marks = {"Apache-2.0": "apache", "MIT": "mit", "BSD-2-Clause": "bsd", "MIT-0": "mit-0"}
    settings = load_settings()
    compared = 0
    for jar in locked():
        path = jar_path(settings, jar)
        if not path.exists():
            continue
        with zipfile.ZipFile(path) as opened:
            names = set(opened.namelist())
            manifest = opened.read("META-INF/MANIFEST.MF").decode(errors="replace") if names else ""
            poms = [name for name in names if re.fullmatch(r"META-INF/maven/.+/pom\.xml", name)]
            texts = [opened.read(name).decode(errors="replace") for name in poms[:1]]
        told = re.findall(r"Bundle-License: (.*)", manifest.replace("\r\n ", "").replace("\n ", ""))
        told += [name for text in texts for name in re.findall(r"<license>\s*<name>(.*?)</name>", text)]
        for each in told:
            licence = LICENCES[jar.group]
            assert any(marks.get(part, part.lower()) in each.lower() for part in licence.split(" OR ")) or (
                licence.startswith("CC0") and "publicdomain/zero" in each
            ), (jar.file_name, each)
            compared += 1
    if not compared:
        pytest.skip("no jar is in the cache: medallion jars fetch")
    assert {row.split("\t")[1] for row in JARS.splitlines()[1:]} == set(LICENCES)


def test_the_statement_names_the_commit_the_files_and_the_locks() -> None:
    """In the form of in-toto and SLSA."""
    build = Build(
        version="0.2.0",
        tag="v0.2.0",
        commit="c" * 40,
        repository="https://host.example/owner/name",
        began=WHEN,
        ended=WHEN,
        tools={"python": "3.12.1", "setuptools": "84.2.1"},
        locks={"requirements.lock": "a" * 64},
    )
    found = statement(build, {"b.whl": "2" * 64, "a.tar.gz": "1" * 64})
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    assert found["subject"] == [
        {"name": "a.tar.gz", "digest": {"sha256": "1" * 64}},
        {"name": "b.whl", "digest": {"sha256": "2" * 64}},
    ]
    definition = found["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["version"] == "0.2.0"
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://host.example/owner/name@refs/tags/v0.2.0", "digest": {"gitCommit": "c" * 40}},
        {"name": "requirements.lock", "digest": {"sha256": "a" * 64}},
    ]
    assert found["predicate"]["runDetails"]["builder"]["id"].startswith("urn:")
