"""``python -m distribution.release VERSION``: makes a release of the commit that is checked out.

``--plan`` prints the steps and changes nothing. Publishing the files and the tag is not one of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from distribution.release.build import ReleaseError
from distribution.release.git import Repository
from distribution.release.steps import Release

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Returns the exit code: 0, 1 where the release cannot be made, 130 where it was interrupted."""
    given = _parser().parse_args(arguments)
    repository = Repository(ROOT)
    address = repository.address if given.repository is None else given.repository
    release = Release(given.version, repository, given.output.resolve(), address)
    if not address:
        _say(
            "note",
            "origin is no https address: no links and pictures in the long description (--repository)",
        )
    try:
        for step in release.steps():
            _say("done" if step.is_done else "to do" if given.plan else "doing", f"{step.name}: {step.words}")
            if not step.is_done and not given.plan:
                step.act()
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on with the step that is not done\n")
        return 130
    if not given.plan:
        _say("then", f"look at {given.output}, push the branch and {release.tag}, publish the files")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make release", description="Make a release of this commit.")
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--plan", action="store_true", help="print the steps; change nothing")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="folder of the files (default: dist)"
    )
    parser.add_argument(
        "--repository", help="address of the repository on a code host (default: that of origin)"
    )
    return parser


def _say(mark: str, words: str) -> None:
    sys.stdout.write(f"{mark:6} {words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
