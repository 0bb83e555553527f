"""``python -m distribution.bench``: the workloads, one after the other, on one broker; see ``--help``.

Progress goes to stderr, the tables to stdout, the files to ``--out``, and the sections, unless ``--no-page``,
to distribution/bench/figures/tables.md and the goals to docs/performance.md. The exit code is 1 where tables
were not what they should be, or where the check ``--cpu-at-least`` fails; a goal that is missed is told and
fails nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from distribution.bench.cluster import scale_out
from distribution.bench.contenders.started_process import ContenderError
from distribution.bench.data import topic
from distribution.bench.measure import machine
from distribution.bench.measure.stats import ratio
from distribution.bench.reporting.report import Report, Section
from distribution.bench.run import OURS, PEERS, Run, Workload
from distribution.bench.workloads import drain, files, freshness, maintenance, restart, soak, standby
from distribution.bench.workloads.gold import choices, gold_tables, views

WORKLOADS: Mapping[str, Workload] = {
    "drain": drain.drained,
    "millions": drain.millions,
    "wide": drain.wide,
    "bronze": drain.bronze,
    "malformed": drain.malformed,
    "freshness": freshness.freshness,
    "gold_tables": gold_tables.gold_tables,
    "restart": restart.restart,
    "standby": standby.standby,
    "files": files.files,
    "maintenance": maintenance.maintenance,
    "views": views.views,
    "choices": choices.choices,
    "scale_out": scale_out.scale_out,
    "soak": soak.soak,
}
"""By name, in the order in which they run."""

ASKED = ("soak", "standby")
"""Those that run only where ``--only`` names them."""

QUICK = ("drain", "freshness")
"""Those of ``--quick``: in eight minutes on two cores."""


def main(words: Sequence[str] | None = None) -> int:
    """Run, report; the exit code."""
    given = _parser().parse_args(words)
    names = given.only or (QUICK if given.quick else [name for name in WORKLOADS if name not in ASKED])
    with tempfile.TemporaryDirectory(prefix="medallion-bench-", dir=given.scratch) as scratch:
        folder = Path(scratch)
        with topic.running(folder / "broker") as broker:
            run = Run(
                broker,
                folder,
                quick=given.quick,
                peers=None if given.against is None else tuple(p for p in given.against if p != "nobody"),
                events=given.events,
                rounds=given.rounds,
                per_second=given.per_second,
                seconds=given.seconds,
                warm_up=given.warm_up,
                beside=given.beside,
                settings=tuple(given.set),
            )
            report = Report(machine.facts(), {**vars(given), "only": list(names)})
            for name in names:
                run.say(f"{name} begins")
                report.sections.append(_section(name, run))
                report.write(given.out, to_docs=False)
    return _told(report, given)


def _section(name: str, run: Run) -> Section:
    """What a workload found; one that a process broke off is a failure, and the others go on."""
    run.left_out.clear()
    try:
        found = WORKLOADS[name](run)
    except ContenderError as error:
        return Section(name, f"{name}: broken off", [], failures=[str(error)])
    out = [line for peer, why in run.left_out.items() for line in ("", f"`{peer}` is left out: {why}")]
    return replace(found, lines=[*found.lines, *out])


def _told(report: Report, given: argparse.Namespace) -> int:
    report.write(given.out, to_docs=not given.no_page)
    sys.stdout.write((given.out / "bench.md").read_text(encoding="utf-8"))
    for failure in report.failures:
        sys.stderr.write(f"FAILED {failure}\n")
    checked = is_cheap_enough(report, given.cpu_at_least)
    sys.stderr.write(f"written to {given.out}\n")
    return 1 if report.failures or not checked else 0


def is_cheap_enough(report: Report, at_least: float | None) -> bool:
    """Whether ours took so many times less CPU than the tutorial in the run's drain; also where none asks."""
    if at_least is None:
        return True
    drains = [one for section in report.sections if section.name == "drain" for one in section.raw]
    found = next((drain for drain in drains if "tutorial" in drain.contenders), None)
    times = float("nan") if found is None else ratio(found.cpu("tutorial"), found.cpu(OURS))
    is_enough = bool(times >= at_least)
    verdict = "at least" if is_enough else "NOT at least"
    sys.stderr.write(f"CPU seconds of the tutorial / ours: {times:.2f}, {verdict} {at_least:g}\n")
    return is_enough


def _cores(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("other work is more than 0 and at most 1 core")
    return share


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m distribution.bench",
        description="Measure, and say what was met. The jars of the peer `flink` are fetched when it first "
        "runs; without Java or network it is left out, and the report says why.",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, a few workloads: eight minutes")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, metavar="NAME", help=", ".join(WORKLOADS))
    against = (*PEERS, "nobody")
    parser.add_argument("--against", nargs="+", choices=against, metavar="PEER", help=", ".join(against))
    parser.add_argument("--events", type=int, help="messages of a drain; rows of the smallest table of views")
    parser.add_argument("--rounds", type=int, help="interleaved rounds")
    parser.add_argument("--per-second", type=int, help="messages per second, a divisor of a million")
    parser.add_argument("--seconds", type=float, help="length of what is measured by the clock")
    parser.add_argument("--warm-up", type=float, help="seconds before it")
    parser.add_argument(
        "--beside", type=_cores, default=0.0, metavar="CORES", help="freshness: once more with other work"
    )
    parser.add_argument("--set", action="append", default=[], metavar="K=V", help="a setting of the product")
    parser.add_argument(
        "--cpu-at-least", type=float, metavar="X", help="fail where the tutorial's CPU is less"
    )
    parser.add_argument("--no-page", action="store_true", help="leave the pages of docs as they are")
    parser.add_argument("--out", type=Path, default=Path("data/bench"), help="folder of the report")
    parser.add_argument("--scratch", type=Path, help="where tables are made; unset: the system's folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
