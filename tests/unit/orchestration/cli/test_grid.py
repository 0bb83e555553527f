"""Tables, advice and messages fit the width of the terminal: nothing that is read or copied is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console, RenderableType
from rich.progress import Progress

from common.machine.terminal import packed, say, wrapped
from medallion import Pipeline, Topic
from orchestration.access.query.record_place import Place
from orchestration.change.backfill.catch_up import _bar_columns
from orchestration.cli.grid import Column, Grid
from orchestration.cli.records.quarantine_output import group_table
from orchestration.cli.run import demo_output
from orchestration.records.quarantine.contents import Group

TIME = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def printed(what: RenderableType, width: int) -> list[str]:
    screen = StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None)
    console.print(what)
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def groups(*reasons: str, dropped: int = 0) -> Sequence[Group]:
    place = Place("earthquakes", 0, 1_234_567)
    return [Group("silver.quakes", reason, 1_234_567, dropped, 0, TIME, TIME, place) for reason in reasons]


def test_quarantine_at_80_columns_has_whole_dates_reasons_and_coordinates() -> None:
    lines = printed(group_table(groups("malformed_json", "not_utf8")), 80)
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines[2:4]] == [
        ["malformed_json", "1,234,567", "2026-03-01", "12:00:00Z", "earthquakes/0/1234567"],
        ["not_utf8", "1,234,567", "2026-03-01", "12:00:00Z", "earthquakes/0/1234567"],
    ]
    assert "not shown at 80 columns: table, first seen, dropped, older rules" in lines


def test_quarantine_keeps_the_count_of_dropped_rows_where_there_are_some() -> None:
    (head, *_) = printed(group_table(groups("amount_positive", dropped=7)), 80)
    assert head.split()[:4] == ["reason", "rows", "dropped", "last"]


def test_quarantine_shows_every_column_in_a_wide_terminal() -> None:
    (head, *_) = printed(group_table(groups("not_utf8")), 200)
    assert re.split(r"\s{2,}", head) == [
        "table",
        "reason",
        "rows",
        "dropped",
        "older rules",
        "first seen",
        "last seen",
        "last example",
    ]


def test_rows_that_no_table_fits_are_lines_of_names_and_values() -> None:
    grid = Grid((Column("name"), Column("value")), [("a" * 30, "b" * 30), ("c", "d")])
    assert printed(grid, 40) == [
        f"name   {'a' * 30}",
        f"value  {'b' * 30}",
        "",
        "name   c",
        "value  d",
    ]


def test_packed_rows_break_between_numbers() -> None:
    grid = Grid(
        (Column("topic"), Column("offsets"), Column("silver"), Column("late")),
        [("quakes/0", "1,000,000", "999,999", "1")],
        is_packed=True,
    )
    assert printed(grid, 36) == ["quakes/0", "  offsets 1,000,000, silver 999,999,", "  late 1"]


@pytest.mark.parametrize("width", [20, 30, 60])
def test_a_command_in_a_message_stays_on_one_line(width: int) -> None:
    command = "medallion query --csv 'select * from gold.x'"
    lines = wrapped(f"--csv and --as-of need SQL, such as: {command}", width).split("\n")
    assert command in [line.strip() for line in lines]
    assert all(len(line) <= width for line in lines if command not in line)


@pytest.mark.parametrize("width", [20, 30, 10_000])
def test_the_mark_after_a_command_stays_at_it(width: int) -> None:
    """The doctor printed "medallion setup , or the first run fetches them"."""
    text = (
        "(medallion setup), or (pip install x; medallion check): one of them, source venv/activate. Then end"
    )
    assert " ".join(line.strip() for line in wrapped(text, width).split("\n")) == text


def test_a_message_is_one_line_where_it_can_be_searched_and_wrapped_on_a_terminal() -> None:
    message = "starting Kafka 4.3.1 at 127.0.0.1:58285 (log: /data/kafka/log/kafka.log)"
    for is_terminal, lines in ((False, 1), (True, 2)):
        screen = StringIO()
        say(Console(file=screen, width=50, force_terminal=is_terminal, color_system=None), message)
        assert len(screen.getvalue().splitlines()) == lines
    assert "/data/kafka/log/kafka.log)" in screen.getvalue()


def test_parts_of_a_list_are_not_broken() -> None:
    assert packed(["not_utf8 153", "malformed_json 142", "empty_value 1"], 34) == [
        "not_utf8 153, malformed_json 142,",
        "empty_value 1",
    ]


@pytest.mark.parametrize("width", [80, 200])
def test_each_command_of_the_demos_end_is_on_a_line_of_its_own(width: int) -> None:
    pipeline = Pipeline(name="x", bronze=[Topic("orders")])
    lines = printed(demo_output.next_commands(pipeline), width)
    assert max(map(len, lines)) <= width
    assert [
        line for line in lines if line.startswith(' medallion query "select * from bronze.orders limit 5"')
    ]


@pytest.mark.parametrize("name", ["gold.quakes", "gold.detection_latency_of_all_networks"])
@pytest.mark.parametrize("width", [80, 200])
def test_the_bar_of_a_backfill_leaves_names_and_counts_whole(name: str, width: int) -> None:
    screen = StringIO()
    console = Console(file=screen, width=width, force_terminal=True, color_system=None)
    bars = Progress(*_bar_columns(width, {name: 1_000_000}), console=console, expand=True)
    bars.add_task(name, total=1_000_000, completed=790_120, shown="790,120/1,000,000", rate=12_345.0)
    console.print(bars.get_renderable())
    (line,) = screen.getvalue().splitlines()
    assert len(line) <= width
    assert line.startswith(f"{name} ")
    assert "790,120/1,000,000" in line
    assert line.count("━") >= 10
    assert ("12,345 rows/s" in line) == (width == 200 or name == "gold.quakes")
