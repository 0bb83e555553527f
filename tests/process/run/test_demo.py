"""One run of the demo: it prints what the example's page shows, and its status is the picture of the README.

``make picture`` writes docs/status.svg from this run; the test compares columns, tables and sources with the
committed file, not numbers.
"""

from __future__ import annotations

import html
import os
import re
import time
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console

from orchestration.access.declaration.load_file import load_pipeline
from orchestration.cli.observe.status_output import WIDTH, render
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.model import Status
from orchestration.observe.status.topic_offsets import BrokerOffsets
from tests.support.processes import DEADLINE_SECONDS, EXAMPLE, PAUSING, ROOT, Command, Medallion, medallion
from tests.unit.test_docs import README

pytestmark = pytest.mark.ci

PICTURE = ROOT / "docs" / "status.svg"


class Demo:
    """A finished run, and the last status in which all of its jobs were running."""

    def __init__(self, command: Command, status: Status) -> None:
        self.command, self.status = command, status


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with medallion(tmp_path_factory.mktemp("demo"), EXAMPLE, *PAUSING) as commands:
        command = commands.start("demo", "--seconds", "1", "--rate", "200")
        status = last_status(commands, command)
        assert command.code() == 0, command.stderr
        yield Demo(command, status)


def last_status(commands: Medallion, command: Command) -> Status:
    """The last status before the end in which a job writes every table."""
    pipeline = load_pipeline(EXAMPLE)
    collector = Collector(pipeline, commands.layout, BrokerOffsets(pipeline, commands.settings))
    found: list[Status] = []

    deadline = time.monotonic() + 2 * DEADLINE_SECONDS
    while command.is_running:
        status = collector.collect()
        if all(table.holder and table.now for table in status.tables) and status.broker:
            found[:] = [status]
        assert time.monotonic() < deadline, command.stderr
        time.sleep(2)
    assert found, command.stderr
    return found[0]


def test_the_demo_prints_what_the_page_of_the_example_shows(demo: Demo) -> None:
    """Every line of its block, but for numbers and for the rows of data."""
    page = (ROOT / "examples" / "earthquakes" / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```\n(first gold rows.*?)```", page, flags=re.DOTALL)
    assert block is not None
    printed = set(map(without_values, [*demo.command.stderr.splitlines(), *demo.command.stdout.splitlines()]))
    shown = [without_values(line) for line in block[1].splitlines() if not is_data(line)]
    assert len(shown) > 20
    assert [line for line in shown if line not in printed] == []


def test_the_demo_ends_with_no_micro_batch_under_way(demo: Demo) -> None:
    """Its last status is of queries that have ended."""
    assert "balanced" in demo.command.stdout
    assert "micro-batch" not in demo.command.stdout


def test_the_demo_prints_the_address_of_its_page(demo: Demo) -> None:
    assert re.search(r"^page at http://127\.0\.0\.1:\d+/$", demo.command.stderr, re.MULTILINE)


def test_the_picture_of_the_readme_is_of_todays_status(demo: Demo) -> None:
    """Its columns, tables and sources."""
    drawn = picture(demo.status)
    if os.environ.get("WRITE_PICTURE"):
        PICTURE.write_text(drawn, encoding="utf-8")
    assert "(docs/status.svg)" in README
    assert outline(PICTURE.read_text(encoding="utf-8")) == outline(drawn)


def picture(status: Status) -> str:
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(render(status))
    return console.export_svg(title="medallion status", unique_id="medallion-status")


def outline(svg: str) -> list[str]:
    """Headings, tables and their sources, from top to bottom."""
    lines: dict[float, str] = {}
    for y, text in re.findall(
        r'<text class="medallion-status-r\d+"[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', svg
    ):
        lines[float(y)] = lines.get(float(y), "") + html.unescape(text).replace("\xa0", " ")
    found = [re.sub(r"[│\s]+", " ", lines[y]).strip() for y in sorted(lines)]
    heads = [line for line in found if re.match(r"(BRONZE|SILVER|GOLD) ", line)]
    tables = [" ".join(line.split()[:2]) for line in found if line.startswith("●")]
    sources = [line.partition(" ·")[0] for line in found if line.startswith("←")]
    assert heads
    assert tables
    return [*heads, *tables, *sources]


def without_values(line: str) -> str:
    """The line with one sign for each number, size, age and lag, and without the spaces that align it."""
    line = re.sub(r"\d[\d,.]*( (KiB|MiB|B|min|s|h|d|rows|records)\b)?|up to date", "#", line)
    return re.sub(r"[━─│\s]+", " ", line).strip()


def is_data(line: str) -> bool:
    """Whether it is a row of a table of data, or stands for lines that are left out."""
    return bool(re.match(r"\s*([a-z]{2} |…|and \d+ more|■)", line)) or not line.strip()
