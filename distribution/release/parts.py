"""The parts of a release with their licences: Python packages and jars, as a CycloneDX 1.6 document."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from typing import Any

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]+?))?\s*\\?$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

_OF_CLASSIFIERS: Mapping[str, str] = {
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""SPDX ids of the classifiers of one licence; ``BSD License`` is several, and stays a name."""

LICENCES: Mapping[str, str] = {
    "at.yawk.lz4": "Apache-2.0",
    "com.dynatrace.hash4j": "Apache-2.0",
    "com.fasterxml.jackson.core": "Apache-2.0",
    "com.fasterxml.jackson.dataformat": "Apache-2.0",
    "com.fasterxml.jackson.datatype": "Apache-2.0",
    "com.github.ben-manes.caffeine": "Apache-2.0",
    "com.github.luben": "BSD-2-Clause",
    "com.google.re2j": "BSD-3-Clause",
    "com.typesafe.scala-logging": "Apache-2.0",
    "com.yammer.metrics": "Apache-2.0",
    "commons-beanutils": "Apache-2.0",
    "commons-collections": "Apache-2.0",
    "commons-digester": "Apache-2.0",
    "commons-logging": "Apache-2.0",
    "commons-validator": "Apache-2.0",
    "io.delta": "Apache-2.0",
    "io.unitycatalog": "Apache-2.0",
    "net.sf.jopt-simple": "MIT",
    "net.sourceforge.argparse4j": "MIT",
    "org.apache.commons": "Apache-2.0",
    "org.apache.hadoop": "Apache-2.0",
    "org.apache.kafka": "Apache-2.0",
    "org.apache.logging.log4j": "Apache-2.0",
    "org.apache.spark": "Apache-2.0",
    "org.bitbucket.b_c": "Apache-2.0",
    "org.hdrhistogram": "CC0-1.0 OR BSD-2-Clause",
    "org.jspecify": "Apache-2.0",
    "org.pcollections": "MIT",
    "org.reactivestreams": "MIT-0",
    "org.scala-lang": "Apache-2.0",
    "org.slf4j": "MIT",
    "org.xerial.snappy": "Apache-2.0",
    "org.yaml": "Apache-2.0",
    "software.amazon.awssdk": "Apache-2.0",
    "software.amazon.eventstream": "Apache-2.0",
}
"""SPDX expressions by group of the locked jars: what the jars carry, else what their projects say."""


@dataclass(frozen=True)
class Package:
    """A locked Python package.

    Attributes:
        name: Its name in the index.
        version: The locked version.
        only: The marker under which it is installed; empty: always.
        sha256: Of its files in the index, any of which may be installed.
    """

    name: str
    version: str
    only: str
    sha256: tuple[str, ...]


def packages(lock: str) -> Iterator[Package]:
    """The packages of a lock file as ``make lock`` writes it."""
    found = list(_PINNED.finditer(lock))
    ends = [*(one.start() for one in found[1:]), len(lock)]
    for one, end in zip(found, ends, strict=True):
        yield Package(one[1], one[2], (one[3] or "").strip(), tuple(_HASH.findall(lock[one.end() : end])))


def bill_of_materials(
    name: str, version: str, locked: Sequence[Package], jars: str, when: datetime
) -> dict[str, Any]:
    """The parts of a version as a CycloneDX 1.6 document: the same one for the same arguments.

    Args:
        name: The package's name in the index.
        version: The release.
        locked: The Python packages of a run.
        jars: The text of ``common/java/jars.lock``.
        when: The time of the release's commit.
    """
    root = f"pkg:pypi/{name}@{version}"
    rows = [line.split("\t") for line in jars.splitlines()[1:]]
    parts = [*(_of_package(one) for one in locked), *_of_jars(rows)]
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{root}#{when.isoformat()}")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "timestamp": when.isoformat(),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": parts,
        "dependencies": [{"ref": root, "dependsOn": sorted(part["bom-ref"] for part in parts)}],
    }


def _of_package(one: Package) -> dict[str, Any]:
    reference = f"pkg:pypi/{one.name.lower()}@{one.version}"
    told = [{"name": "python:file:sha256", "value": each} for each in one.sha256]
    if one.only:
        told.append({"name": "python:only", "value": one.only})
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": one.name,
        "version": one.version,
        "purl": reference,
        "properties": told,
    }
    licence = _licence_of_package(one.name)
    return part | {"licenses": [licence]} if licence else part


def _licence_of_package(name: str) -> dict[str, Any] | None:
    """What the installed package says of its licence; None where this environment does not have it."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    expression = (told.get_all("License-Expression") or [""])[0]
    marks = told.get_all("Classifier") or ()
    classifiers = [mark.rpartition("::")[2].strip() for mark in marks if mark.startswith("License ::")]
    if expression:
        return {"expression": expression}
    if len(classifiers) == 1 and classifiers[0] in _OF_CLASSIFIERS:
        return {"license": {"id": _OF_CLASSIFIERS[classifiers[0]]}}
    text = (told.get_all("License") or [""])[0]
    named = "; ".join(classifiers) or text.strip().partition("\n")[0]
    return {"license": {"name": named}} if named else None


def _of_jars(rows: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
    """One component per jar: two sets may name the same one."""
    seen: dict[str, dict[str, Any]] = {}
    for jar_set, group, artifact, version, sha256, _ in rows:
        reference = f"pkg:maven/{group}/{artifact}@{version}"
        part = seen.setdefault(
            reference,
            {
                "type": "library",
                "bom-ref": reference,
                "group": group,
                "name": artifact,
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": sha256}],
                "licenses": [_licence_of_jar(group)],
                "purl": reference,
                "properties": [],
            },
        )
        part["properties"].append({"name": "medallion:jar-set", "value": jar_set})
    yield from seen.values()


def _licence_of_jar(group: str) -> dict[str, Any]:
    licence = LICENCES[group]
    return {"expression": licence} if " OR " in licence else {"license": {"id": licence}}
