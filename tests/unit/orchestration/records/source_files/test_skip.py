"""A file is given up by its path: where it stands, what is lost, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from common.config.paths import Layout
from common.declare import Files, Pipeline, Topic
from common.delta.lease.job_leases import TableLeases
from common.errors import LeaseHeldError, UsageError
from common.streaming.file_list import FileList
from orchestration.cli.options import register
from orchestration.cli.records import files as command
from orchestration.records.audit.accepted_gaps import given_up, read_gaps
from orchestration.records.source_files.contents import source_files
from orchestration.records.source_files.skip import skip_file
from tests.conftest import make_settings

LISTED = [
    {"path": "a.jsonl", "size": 9, "modified_ms": 5_000, "offset": 0, "rows": 3},
    {"path": "none.jsonl", "size": 0, "modified_ms": 5_000, "offset": 3, "rows": 0},
    {"path": "x/ü b.jsonl", "size": 9, "modified_ms": 5_000, "offset": 3, "rows": 4, "cuts": [2, 5]},
    {"path": "bad.gz", "size": 9, "modified_ms": 5_000, "offset": 7, "rows": 1, "fault": "not a gzip file"},
]


@pytest.fixture(name="pipeline")
def _pipeline(tmp_path: Path) -> Pipeline:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "later.jsonl").write_text("1\n")
    bronze = [
        Topic("orders", topics=["orders"]),
        Files("history", path=str(folder), format="jsonl", into="bronze.orders"),
        Files("one", path=str(folder / "later.jsonl"), format="jsonl"),
    ]
    return Pipeline(name="shop", bronze=bronze)


@pytest.fixture(name="layout")
def _layout(pipeline: Pipeline, tmp_path: Path) -> Layout:
    layout = Layout.of(pipeline, make_settings(tmp_path, "none:1"))
    folder = Path(layout.file_list_path("bronze.history"))
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(one) + "\n" for one in LISTED)
    (folder / "00000000000000000000.jsonl").write_text(lines)
    return layout


def test_the_unread_records_are_a_gap_of_the_table_that_has_them(pipeline: Pipeline, layout: Layout) -> None:
    assert skip_file(pipeline, layout, "x/ü b.jsonl", "gone", is_plan=True).is_new
    assert read_gaps(layout, "bronze.orders") == ()
    for is_new in (True, False):
        done = skip_file(pipeline, layout, "x/ü b.jsonl", "gone")
        assert (done.table, done.offset, done.records, done.read) == ("bronze.history", 3, 4, 0)
        assert done.is_new == is_new
    (gap,) = read_gaps(layout, "bronze.orders")
    assert (gap.topic, gap.partition, gap.first_offset, gap.last_offset) == ("files:history", 0, 3, 6)
    assert gap.reason == "skipped x/ü b.jsonl: gone"
    states = [(one.path, one.state, one.why) for one in source_files(layout, pipeline.files[0])]
    assert states == [
        ("a.jsonl", "waiting", ""),
        ("none.jsonl", "read", ""),
        ("x/ü b.jsonl", "skipped", "gone"),
        ("bad.gz", "unreadable", "not a gzip file"),
    ]


def has_read(layout: Layout, end: int) -> None:
    """A checkpoint that has read up to an offset."""
    checkpoint = Path(layout.checkpoint_path("bronze.history"))
    for folder, content in (
        ("offsets", f'v1\n{{}}\n{{"files:history":{{"0":{end}}}}}\n'),
        ("commits", "v1\n{}\n"),
    ):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / "0").write_text(content)


def test_a_table_whose_newest_commits_are_a_topics(pipeline: Pipeline, layout: Layout) -> None:
    """How much of the files is read is in the checkpoint."""
    has_read(layout, 5)
    states = [(one.path, one.read, one.state) for one in source_files(layout, pipeline.files[0])]
    assert states[0] == ("a.jsonl", 3, "read")
    assert states[2] == ("x/ü b.jsonl", 2, "waiting")
    with pytest.raises(UsageError, match=r"has read all records of a.jsonl \(3\)"):
        skip_file(pipeline, layout, "a.jsonl", "no")
    done = skip_file(pipeline, layout, "x/ü b.jsonl", "no")
    assert (done.offset, done.records, done.read) == (5, 2, 2)


def test_after_bronze_is_lost_more_of_a_skipped_file_is_skipped(pipeline: Pipeline, layout: Layout) -> None:
    """Else the query, which reads the files again from their beginning, could not go on."""
    has_read(layout, 5)
    assert skip_file(pipeline, layout, "x/ü b.jsonl", "gone").offset == 5
    assert not skip_file(pipeline, layout, "x/ü b.jsonl", "gone").is_new
    has_read(layout, 0)
    for is_new in (True, False):
        done = skip_file(pipeline, layout, "x/ü b.jsonl", "gone")
        assert (done.offset, done.records, done.is_new) == (3, 4, is_new)
    gaps = read_gaps(layout, "bronze.orders")
    assert [(one.first_offset, one.last_offset) for one in gaps] == [(3, 4), (5, 6)]


def test_a_file_that_status_names_for_good_is_given_up(pipeline: Pipeline, layout: Layout) -> None:
    """All its offsets are read, so no gap is counted; the audit says that nothing more of it is read."""
    has_read(layout, 8)
    second = Path(layout.file_list_path("bronze.history"), "00000000000000000001.jsonl")
    second.write_text('{"changed":"a.jsonl","size":8,"modified_ms":9000}\n')
    for path, read in (("a.jsonl", 3), ("bad.gz", 1)):
        for is_new in (True, False):
            done = skip_file(pipeline, layout, path, "known")
            assert (done.offset, done.records, done.read, done.is_new) == (None, 0, read, is_new)
    listed = FileList(layout.file_list_path("bronze.history"))
    listed.update(0)
    assert (listed.changed, listed.faults) == ({}, {})
    states = [(one.path, one.read, one.state) for one in source_files(layout, pipeline.files[0])]
    assert states == [
        ("a.jsonl", 3, "skipped"),
        ("none.jsonl", 0, "read"),
        ("x/ü b.jsonl", 4, "read"),
        ("bad.gz", 1, "skipped"),
    ]
    assert read_gaps(layout, "bronze.orders") == ()
    assert [*given_up(pipeline, layout, "bronze.orders")] == [
        "files:history: nothing more is read of a.jsonl, skipped: known",
        "files:history: nothing more is read of bad.gz, skipped: known",
    ]


def test_only_a_file_that_a_look_finds_is_skipped(pipeline: Pipeline, layout: Layout) -> None:
    """No folder, no hidden file, and none outside of the declared folder."""
    folder = Path(pipeline.files[0].path)
    (folder / "sub").mkdir()
    for name in ("_part", ".hidden", "../outside.jsonl"):
        (folder / name).write_text("1\n")
    for path in ("", ".", "sub", "_part", ".hidden", "../outside.jsonl", str(folder / "later.jsonl")):
        with pytest.raises(
            UsageError, match=r"is no file of bronze.history; .*as medallion files list prints"
        ):
            skip_file(pipeline, layout, path, "no", table="bronze.history")
    with pytest.raises(UsageError, match=r"did you mean 'x/ü b.jsonl'\?"):
        skip_file(pipeline, layout, "export/x/ü b.jsonl", "no", table="bronze.history")


def test_an_interrupted_skip_is_finished_by_the_same_command(
    pipeline: Pipeline, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gap was written, and the list of files was not."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileList, "skip", killed)
        with pytest.raises(KeyboardInterrupt):
            skip_file(pipeline, layout, "a.jsonl", "gone")
    assert skip_file(pipeline, layout, "a.jsonl", "gone").is_new
    assert [one.offsets for one in read_gaps(layout, "bronze.orders")] == [3]


def test_what_no_list_has_is_skipped_if_it_is_there(pipeline: Pipeline, layout: Layout) -> None:
    """A folder, and one declared file, have the same path here; a typing error is refused."""
    with pytest.raises(UsageError, match=r"bronze.history and bronze.one have a file later.jsonl.*--table"):
        skip_file(pipeline, layout, "later.jsonl", "no")
    for table in ("bronze.history", "one"):
        assert skip_file(pipeline, layout, "later.jsonl", "no", table=table).offset is None
    assert not skip_file(pipeline, layout, "later.jsonl", "no", table="bronze.one").is_new
    assert read_gaps(layout, "bronze.orders") == ()
    listed = FileList(layout.file_list_path("bronze.one"))
    listed.update(0)
    assert [*listed.skipped] == ["./later.jsonl"]
    for path, told in (("a.json", "a.json is no file of bronze.history, bronze.one"), ("x", "x is no file")):
        with pytest.raises(UsageError, match=told):
            skip_file(pipeline, layout, path, "no")
    with pytest.raises(UsageError, match=r"bronze.orders is no bronze table of files"):
        skip_file(pipeline, layout, "a.jsonl", "no", table="bronze.orders")
    with pytest.raises(UsageError, match=r"--why is empty"):
        skip_file(pipeline, layout, "a.jsonl", " ")


def test_beside_the_job_it_is_refused(pipeline: Pipeline, layout: Layout) -> None:
    with (
        TableLeases(layout, ("bronze.history",), "bronze"),
        pytest.raises(LeaseHeldError, match=r"bronze.history"),
    ):
        skip_file(pipeline, layout, "a.jsonl", "no")


def test_a_file_that_is_as_it_was_is_not_changed_any_more(layout: Layout) -> None:
    listed = FileList(layout.file_list_path("bronze.history"))
    second = Path(layout.file_list_path("bronze.history"), "00000000000000000001.jsonl")
    second.write_text('{"changed":"a.jsonl","size":8,"modified_ms":9000}\n')
    listed.update(0)
    assert [*listed.changed] == ["a.jsonl"]
    second.with_name("00000000000000000002.jsonl").write_text(
        '{"changed":"a.jsonl","size":9,"modified_ms":5000,"as_listed":true}\n'
    )
    listed.update(0)
    assert [*listed.changed] == []


def test_the_commands_tell_what_they_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As lines and as JSON."""
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "a.jsonl").write_text("1\n")
    (tmp_path / "shop.py").write_text(
        "from medallion import Files, Pipeline\n"
        'pipeline = Pipeline(name="shop", bronze=[Files("history", path="export", format="jsonl")])\n'
    )
    (tmp_path / "medallion.yaml").write_text("pipeline: shop.py\n")
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    register(app, command)
    run = CliRunner().invoke
    assert "No file was found yet." in run(app, ["files", "list"]).output
    told = json.loads(run(app, ["files", "skip", "a.jsonl", "--why", "no", "--json"]).output)
    assert (told["table"], told["offset"], told["records"]) == ("bronze.history", None, 0)
    document = json.loads(run(app, ["files", "list", "--json"]).output)
    assert [(one["path"], one["state"]) for one in document["files"]] == [("a.jsonl", "skipped")]
    assert "a.jsonl" in run(app, ["files", "list"]).output
