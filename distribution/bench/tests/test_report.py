"""What the tool writes: sections in their places, goals row by row, JSON, and a page that stands alone."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from distribution.bench import __main__ as command
from distribution.bench.measure.machine import Usage
from distribution.bench.measure.stats import Goal
from distribution.bench.reporting import drain_report as drain
from distribution.bench.reporting import page
from distribution.bench.reporting.drain_report import Drain, Drained
from distribution.bench.reporting.plots import Bars, Lines, html
from distribution.bench.reporting.report import Report, Section

MACHINE = {
    "machine": "x86_64",
    "cpu": "2 CPUs: One",
    "memory_gib": 8.0,
    "spark": "4",
    "delta_rs": "1",
    "polars": "2",
    "python": "3",
    "commit": "abc",
    "at": "2026-01-02T03:04:05+00:00",
}
PAGE = "# What it costs\n\nWritten by the tool.\n\n## One\n\nfirst\n\nold\n\n## Two\n\nsecond\n"


def usage(seconds: float, cpu: float, foreign: float = 0.0) -> Usage:
    return Usage(seconds, cpu, 2**30, {"broker": 1.0, "harness": 0.5}, foreign, 0.0)


def drained(contender: str, seconds: float, cpu: float, *failures: str, foreign: float = 0.0) -> Drained:
    tables = {"bronze": {"files": 2, "commits": 3, "bytes": 4}}
    phases = {"bronze": seconds / 4}
    return Drained(contender, 1_000_000, usage(seconds, cpu, foreign), tables, phases, failures)


def test_a_section_is_replaced_where_it_stands() -> None:
    new = page.replaced(PAGE, "One", page.section("One", ["changed"], "machine"))
    assert new == PAGE.replace("first\n\nold", "changed\n\nmachine")


def test_a_new_section_goes_to_the_end() -> None:
    new = page.replaced(PAGE, "Three", page.section("Three", ["third"], "machine"))
    assert new == PAGE + "\n## Three\n\nthird\n\nmachine\n"


def test_goals_are_kept_row_by_row() -> None:
    once = page.with_goals(
        PAGE, [("W10 x", "at least 1", "2", "met"), ("W2 y", "at most 1", "2", "missed")], "m; 1."
    )
    assert once.index("## Goals") < once.index("## One")
    again = page.with_goals(once, [("W2 y", "at most 1", "0.5", "met")], "m; 2.")
    rows = [line for line in again.splitlines() if line.startswith("| W")]
    assert rows == ["| W2 y | at most 1 | 0.5 | met | 2 |", "| W10 x | at least 1 | 2 | met | 1 |"]
    assert again.count("## Goals") == 1
    assert again.endswith("## Two\n\nsecond\n")


def test_rounds_are_told_by_their_median_and_failures_are_left_out() -> None:
    runs = (
        drained("ours", 10, 20),
        drained("tutorial", 60, 100),
        drained("ours", 20, 40),
        drained("tutorial", 1, 1, "silver: 1 row lost"),
        drained("ours", 12, 24),
    )
    found = Drain(1_000_000, 3, runs)
    assert (found.cpu("ours"), found.cpu("tutorial")) == (24, 100)
    assert found.rate("ours") == pytest.approx(1_000_000 / 12)
    assert found.failures == ["tutorial: silver: 1 row lost"]
    row = next(line for line in drain.lines(found, "what") if line.startswith("| tutorial"))
    assert row.split(" | ")[2:4] == ["100", "4.17"]
    assert "| ours | bronze | 3.0 | 25 % |" in drain.lines(found, "what")
    assert "| ours | start, end and between | 9.0 | 75 % |" in drain.lines(found, "what")


def test_the_clock_of_a_run_that_others_disturbed_is_not_used() -> None:
    found = Drain(1_000_000, 2, (drained("ours", 10, 20, foreign=0.4), drained("ours", 20, 30, foreign=0.1)))
    assert found.rate("ours") == 50_000
    disturbed = Drain(1_000_000, 1, (drained("ours", 10, 20, foreign=0.4),))
    assert math.isnan(disturbed.rate("ours"))
    assert disturbed.cpu("ours") == 20
    row = next(line for line in drain.lines(disturbed, "what") if line.startswith("| ours"))
    assert row.split(" | ")[1] == "-"


def report() -> Report:
    runs = Drain(1_000_000, 1, (drained("ours", 10, 20), drained("tutorial", 60, 100)))
    series = {"ours <p50>": [(0.0, 0.5), (1.0, math.nan)], "tutorial": [(0.0, 120.0)]}
    section = Section(
        "drain",
        "Drain & more",
        drain.lines(runs, "What was run."),
        [Goal("W1 x", 5.0, 6.0, "at least")],
        [runs],
        runs.failures,
        [Bars("CPU", {"ours": 20.0, "none": math.nan}, "s"), Lines("Age", series, "s", "s")],
    )
    return Report(MACHINE, {"quick": True}, [section])


def test_one_run_is_three_files(tmp_path: Path) -> None:
    report().write(tmp_path, to_docs=False)
    raw = json.loads((tmp_path / "bench.json").read_text())
    assert raw["machine"] == MACHINE
    assert raw["sections"][0]["raw"][0]["runs"][1]["usage"]["cpu"] == 100
    text = (tmp_path / "bench.md").read_text()
    assert "| W1 x | at least 6 | 5 | missed by 17 % |" in text
    assert text.index("## Goals") < text.index("## Drain & more")
    assert "commit abc; 2026-01-02." in text


def test_the_page_loads_nothing_and_says_it_all(tmp_path: Path) -> None:
    report().write(tmp_path, to_docs=False)
    text = (tmp_path / "bench.html").read_text()
    assert not re.search(r"(src|href|url|import|fetch)\s*[=(]", text)
    assert text.count("<svg") == text.count("</svg>") == 2
    assert "ours &lt;p50&gt;" in text
    assert '<td class="missed">missed by 17 %</td>' in text


def test_plots_of_nothing_are_pictures_all_the_same() -> None:
    text = html("t", "m", [], [Bars("a", {}, "s"), Lines("b", {"x": []}, "s", "s")])
    assert text.count("<svg") == 2
    assert "nan" not in text


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The page that people read, and the one of tables; with two sections each."""
    found = tmp_path / "performance.md", tmp_path / "tables.md"
    for name, file in zip(("PAGE", "TABLES"), found, strict=True):
        monkeypatch.setattr(page, name, file)
        file.write_text(PAGE)
    return found


def titles(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line.startswith("## ")]


def test_docs_get_the_sections_and_the_goals(tmp_path: Path, pages: tuple[Path, Path]) -> None:
    report().write(tmp_path, to_docs=True)
    assert [titles(file) for file in pages] == [
        ["## Goals", "## One", "## Two"],
        ["## One", "## Two", "## Drain & more"],
    ]


def test_docs_get_the_pictures_of_a_section(tmp_path: Path, pages: tuple[Path, Path]) -> None:
    picture = Lines("Age", {"ours": [(0.0, 1.0), (1.0, 2.0)]}, "s", "s")
    section = replace(report().sections[0], pictures={"age.svg": picture})
    Report(MACHINE, {}, [section]).write(tmp_path, to_docs=True)
    text = pages[0].with_name("age.svg").read_text()
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert text.strip() in (tmp_path / "bench.html").read_text()


def test_docs_get_no_section_with_a_failure(tmp_path: Path, pages: tuple[Path, Path]) -> None:
    whole = report().sections[0]
    report_ = Report(MACHINE, {}, [replace(whole, failures=["ours: silver: 1 row lost"])])
    report_.write(tmp_path, to_docs=True)
    assert [file.read_text() for file in pages] == [PAGE, PAGE]
    assert report_.failures == ["drain: ours: silver: 1 row lost"]


@pytest.mark.parametrize(("bound", "enough"), [(4.9, True), (5.1, False), (None, True)])
def test_the_check_compares_cpu_with_the_tutorial(bound: float | None, enough: bool) -> None:  # noqa: FBT001
    assert command.is_cheap_enough(report(), bound) is enough


def test_the_check_fails_where_the_tutorial_did_not_count() -> None:
    runs = Drain(1_000_000, 1, (drained("ours", 10, 20), drained("tutorial", 60, 100, "silver: lost")))
    section = Section("drain", "Drain", [], raw=[runs])
    assert not command.is_cheap_enough(Report(MACHINE, {}, [section]), 0.1)
    assert not command.is_cheap_enough(Report(MACHINE, {}, []), 0.1)


def test_what_a_further_million_costs_is_taken_from_the_smallest_and_the_largest_drain() -> None:
    def of(millions: int, seconds: float, cpu: float) -> Drain:
        run = replace(drained("ours", seconds, cpu), events=millions * 1_000_000)
        return Drain(run.events, 1, (run,))

    drains = [of(1, 40, 70), of(2, 50, 95), of(10, 200, 250)]
    assert drain.per_further_million(drains) == 20
    assert drain.further_goal(drains, 20.0).is_met
    rows = [line.split(" | ")[:5] for line in drain.further(drains)[-3:]]
    assert rows == [
        ["| 1,000,000", "40.0", "70.0", "25,000", "-"],
        ["| 2,000,000", "50.0", "95.0", "40,000", "25"],
        ["| 10,000,000", "200.0", "250.0", "50,000", "19.4"],
    ]


def test_ratios_to_the_loop_are_of_what_both_take_for_a_further_million() -> None:
    def of(millions: int, ours: float, loop: float) -> Drain:
        runs = (drained("ours", 2 * ours, ours), drained("polars", loop, loop))
        runs = tuple(replace(run, events=millions * 1_000_000) for run in runs)
        return Drain(millions * 1_000_000, 1, runs)

    cpu, speed = drain.against_the_loop([of(1, 60, 14), of(2, 90, 24)])
    assert (cpu.measured, cpu.is_met) == (3.0, False)
    assert speed.measured == pytest.approx(24 / 180)


def test_a_drain_beside_flink_is_judged_by_its_cpu() -> None:
    runs = (drained("ours", 10, 30), drained("flink", 20, 40))
    told = {goal.what: (goal.measured, goal.is_met) for goal in drain.goals(Drain(1_000_000, 1, runs))}
    assert told == {"W1 1,000,000 cold, CPU of ours / Flink": (0.75, False)}


def test_a_drain_that_failed_has_no_figures() -> None:
    good = Drain(1_000_000, 1, (drained("ours", 40, 70),))
    bad = Drain(2_000_000, 1, (replace(drained("ours", 50, 95, "rows are missing"), events=2_000_000),))
    assert drain.further([good, bad])[-1].startswith("| 2,000,000 | failed | failed | - | - |")
    assert drain.further_goal([good, bad], 20.0).is_met is None
