"""What was built, by whom, of what: an in-toto statement with the predicate of SLSA's provenance. Pure.

It is not signed: whoever publishes a release signs it, or publishes its checksums in a place of trust.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

BUILD_TYPE = "urn:medallion-lakehouse:make-release:1"
"""What the parameters of the build mean: the command ``make release`` of this repository."""


@dataclass(frozen=True)
class Build:
    """One build of a release.

    Attributes:
        version: The version.
        tag: The git tag.
        commit: The commit's hash.
        repository: Address of the repository; empty if none is known.
        began: When the build began.
        ended: When it ended.
        tools: Versions of Python and of the packages that build, by name.
        locks: Digests of the lock files, by path in the repository.
    """

    version: str
    tag: str
    commit: str
    repository: str
    began: datetime
    ended: datetime
    tools: Mapping[str, str]
    locks: Mapping[str, str]


def statement(build: Build, files: Mapping[str, str]) -> dict[str, Any]:
    """The statement on files of a release.

    Args:
        build: How they were built.
        files: Their sha256, by file name.
    """
    source = (
        f"git+{build.repository}@refs/tags/{build.tag}" if build.repository else f"git+commit:{build.commit}"
    )
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": sha}} for name, sha in sorted(files.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": build.version, "source": source},
                "internalParameters": {"tools": dict(build.tools)},
                "resolvedDependencies": [
                    {"uri": source, "digest": {"gitCommit": build.commit}},
                    *({"name": path, "digest": {"sha256": sha}} for path, sha in sorted(build.locks.items())),
                ],
            },
            "runDetails": {
                "builder": {"id": BUILD_TYPE, "version": dict(build.tools)},
                "metadata": {
                    "startedOn": build.began.isoformat(),
                    "finishedOn": build.ended.isoformat(),
                },
            },
        },
    }


def sha256(path: Path) -> str:
    """A file's digest."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
