"""All codes of mistakes and errors as Markdown, for ``docs/reference/errors.md``."""

from __future__ import annotations

import sys
from collections import Counter

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
        "Every message has a code: here what it means, and what to do. `medallion explain CODE` prints its",
        "line of this page, `--json` and JSON logs have it as `code`. A code keeps its meaning from release",
        "to release.",
        "",
        "Written by `python -m distribution.pages.errors_reference > docs/reference/errors.md`.",
    ]
    lines += ["", "## Exit codes", ""]
    lines += [f"- **{number}**: {meaning}" for number, meaning in EXIT_CODES.items()]
    lines += ["", "Command by command: [tests/spec/commands](../../tests/spec/commands/refused.md)."]
    for digit, head in _HEADS.items():
        found = {code: each for code, each in CODES.items() if code.startswith(f"MED-{digit}")}
        ends = {code: getattr(errors, each.error or "UsageError").exit_code for code, each in found.items()}
        usual = Counter(ends.values()).most_common(1)[0][0]
        lines += ["", f"## {head}", "", f"Exit code {usual}, where no other is named.", ""]
        for code, each in found.items():
            other = "" if ends[code] == usual else f" Exit code {ends[code]}."
            lines.append(f"- {code}: {each.title} *{each.advice.replace('*', chr(92) + '*')}*{other}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
