"""All codes of mistakes and errors as Markdown, for ``docs/reference/errors.md``."""

from __future__ import annotations

import sys

from common import errors
from common.codes import CODES, EXIT_CODES

_HEADS = {
    "1": "What you wrote must change",
    "2": "The machine, a broker or a store",
    "3": "Tables and checkpoints",
    "4": "Queries",
    "5": "What a check found, and leases",
}


def reference() -> str:
    """The page of errors."""
    lines = [
        "# Errors",
        "",
        "Every message has a code. `medallion explain CODE` prints its line of this page, `--json` has it as",
        "`code`, and so have JSON logs. A code keeps its meaning from release to release.",
        "",
        "Written by `python -m distribution.pages.errors_reference > docs/reference/errors.md`, and compared",
        "by a test.",
    ]
    lines += ["", "## Exit codes", "", "| exit code | what it means |", "|---|---|"]
    lines += [f"| {number} | {meaning} |" for number, meaning in EXIT_CODES.items()]
    for digit, head in _HEADS.items():
        rows = []
        for code, each in CODES.items():
            if code.startswith(f"MED-{digit}"):
                kind = getattr(errors, each.error) if each.error else errors.UsageError
                title, advice = each.title.replace("|", "\\|"), each.advice.replace("|", "\\|")
                rows.append((f"| {code} | {title} | {advice} |", f" {kind.exit_code} |"))
        ends = {end for _, end in rows}
        lines += ["", f"## {head}", ""]
        if len(ends) == 1:
            lines += [f"Exit code{ends.pop().removesuffix(' |')}.", ""]
            lines += ["| code | what it means | what to do |", "|---|---|---|", *(row for row, _ in rows)]
        else:
            lines += ["| code | what it means | what to do | exit code |", "|---|---|---|---|"]
            lines += [f"{row}{end}" for row, end in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
