"""The codes of all mistakes and errors, such as ``MED-1202``: ``codes.tsv`` has them.

``docs/reference/errors.md`` is made of them.

A mistake of what the user wrote carries its code (``common.errors.Fault``), an error has that of its class. A
code keeps its meaning from release to release, and one that is no longer used is not given again.

``MED-1…``: what the user wrote must change; ``MED-2…``: the machine or a service; ``MED-3…``: tables and
checkpoints; ``MED-4…``: a query; ``MED-5…``: what a check of the data found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.data_table import rows
from common.errors import UNNAMED, CaseError, MedallionError, PipelineError, Problem, SettingsError


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for."""

    title: str  # the mistake, or what has happened
    advice: str  # what to do
    error: str = ""  # the class of errors that has the code; empty for a mistake


CODES: Mapping[str, Code] = {
    code: Code(title, advice, error.strip("-")) for code, error, title, advice in rows(__file__, "codes.tsv")
}
"""All codes, in order."""

EXIT_CODES: Mapping[int, str] = {
    0: "The command has done what it was told.",
    1: "An error of the machine, a table, a query or the audit; the message has its code.",
    2: "What was written must change: an option, a setting, the pipeline file or a case.",
    3: "A quality suite failed.",
    4: "Another process writes the table.",
    5: "A case of the pipeline's own tests failed (`medallion test`).",
    6: "The plan has something to do (`medallion plan`).",
    130: "Interrupted by Ctrl-C or a signal.",
}
"""What the exit code of a command means; each has one meaning."""

TO_DO = 6
"""Exit code of a plan that has something to do."""

_OF_CLASSES = {each.error: code for code, each in CODES.items() if each.error}


def code_of(error: MedallionError | Problem) -> str:
    """The code of an error, or of a mistake."""
    if isinstance(error, Problem):
        return error.code
    if isinstance(error, PipelineError | CaseError | SettingsError) and len(error.problems) == 1:
        found = error.problems[0].code
        if found != UNNAMED:
            return found
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((_OF_CLASSES[name] for name in names if name in _OF_CLASSES), UNNAMED)
