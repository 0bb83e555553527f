"""The command line's edge: exit codes that scripts can rely on, and no traceback for a user's mistake."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from common.codes import CODES
from common.config.settings import Settings
from common.declare import Pipeline
from common.errors import AccountError, SetupError, UsageError
from common.machine import processes, stop_signals
from common.machine.object_store import store_failure
from orchestration.cli import main
from orchestration.run import job
from tests.support import in_process

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"

WRONG = """
from common.declare import Aggregate, Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="numbers",
    bronze=[Topic("numbers", topics=["numbers"])],
    silver=[
        Silver("numbers", reads="bronze.numbers", value=Json("id int"),
            columns={"id": "id", "sent_at": "_kafka.timestamp"},
            key=["id"], event_time="sent_at", watermark="1 day")
    ],
    gold=[Aggregate("sums", reads="silver.number", by=["id"], measures={"sum": "sum(id)"})],
)
"""


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_check_names_mistakes_of_settings_and_of_the_pipeline_at_once(tmp_path: Path) -> None:
    """As text on both outputs, or as one JSON document."""
    file = tmp_path / "shop.py"
    file.write_text(WRONG)
    words = ["check", "-p", str(file), "--set", "kafka.prt=1"]
    ended = in_process.run(*words)
    assert ended.code == 2
    assert "kafka.port" in ended.stderr
    assert "did you mean 'silver.numbers'?" in ended.stdout
    document = json.loads(in_process.run(*words, "--json").stdout)
    assert document["ok"] is False
    assert [one["place"] for one in document["problems"]] == ["settings", "gold.sums"]


def test_a_code_is_explained_by_its_title_and_what_to_do() -> None:
    told = in_process.run("explain", "med-1202").stdout
    assert told.startswith(f"MED-1202  {CODES['MED-1202'].title}\n")
    assert told.split("\n")[1].startswith(CODES["MED-1202"].advice.partition("[")[0])


def test_fail_fast_is_a_setting_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def open_job(pipeline: Pipeline, settings: Settings, *_: object, **__: object) -> None:
        given.append(settings.supervision.fail_fast)
        raise UsageError("that is enough")

    monkeypatch.setattr(job, "open_job", open_job)
    for words in (["run", "gold"], ["run", "gold", "--fail-fast"], ["up", "--fail-fast"]):
        assert in_process.run(*words).error == "error: that is enough"
    assert given == [False, True, True]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError("AWS Error ACCESS_DENIED during HeadObject operation: No body."),
            "the object store: No body",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "/lake/x"), "/lake/x cannot be written"),
        (
            OSError(errno.EACCES, "Permission denied", "/lake/x"),
            f"/lake/x cannot be read or written by this user, uid {os.geteuid()} (Permission denied)",
        ),
        (
            PermissionError(errno.EACCES, "Failed to open local file '/lake/y'. Detail: [errno 13]"),
            "/lake/y cannot be read or written by this user",
        ),
    ],
)
def test_a_store_or_a_disk_that_refuses_is_an_error_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(job, "open_job", fail)
    ended = in_process.run("run", "gold")
    assert told in ended.error
    assert ended.code == SetupError.exit_code


@pytest.mark.parametrize(("words", "code"), [(["chekc"], 2), (["check", "-p", str(EXAMPLE)], 0)])
def test_a_process_ends_with_the_commands_exit_code(words: list[str], code: int) -> None:
    command = [sys.executable, "-m", "orchestration", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_dir_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    """It names the folder and the setting."""
    (tmp_path / "file").touch()
    ended = in_process.run("backfill", settings=[f"data_dir={tmp_path / 'file'}"])
    assert ended.code == 1
    assert "data_dir" in ended.error


def test_a_wrong_pipeline_exits_2_with_the_place_of_each_mistake(tmp_path: Path) -> None:
    """Before anything is started or made."""
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    ended = in_process.run("up", "-p", str(file), settings=[f"data_dir={tmp_path / 'data'}"])
    assert ended.code == 2
    assert f"{file}:" in ended.error
    assert "gold.sums" in ended.error
    assert "did you mean 'silver.numbers'?" in ended.error
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("words", [("up",), ("up", "--separate"), ("produce", "--count", "1")], ids=" ".join)
def test_a_broker_that_is_not_there_is_told_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The pipeline names it, so no broker of ours is started in its place; nor is Spark."""
    monkeypatch.setattr(job, "_REACH_SECONDS", 1.0)
    port = processes.free_port()
    file = tmp_path / "elsewhere.py"
    file.write_text(
        f"import sys\nfrom dataclasses import replace\nsys.path.insert(0, {str(EXAMPLE.parent)!r})\n"
        "from pipeline import pipeline as example\n"
        f"pipeline = replace(example, kafka={{'bootstrap.servers': '127.0.0.1:{port}'}})\n"
    )
    ended = in_process.run(*words, "-p", str(file), settings=[f"data_dir={tmp_path / 'data'}"])
    assert ended.code == 1
    assert f"No Kafka broker answered at 127.0.0.1:{port} within 1 s: " in ended.error
    assert "refused" in ended.error
    assert "Spark" not in ended.stderr
    assert not (tmp_path / "data" / "kafka").exists()


CONTROLS = "\x1b]0;t\x07\x9b1m\u202e"


@pytest.mark.parametrize(
    "words", [["check", "--set", f"kafka.{CONTROLS}=1"], ["status", "-p", f"{CONTROLS}.py"]]
)
def test_an_error_controls_no_terminal(words: list[str]) -> None:
    ended = in_process.run(*words)
    assert ended.code == 2
    assert r"\x1b]0;t\x07\x9b1m\u202e" in ended.stderr
    assert all(letter.isprintable() or letter == "\n" for letter in ended.stderr)


def test_a_problem_that_check_finds_controls_no_terminal(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.py"
    file.write_text(WRONG.replace('"silver.number"', repr(f"silver.{CONTROLS}")), encoding="utf-8")
    ended = in_process.run("check", "-p", str(file))
    assert ended.code == 2
    shown = ended.stdout + ended.stderr
    assert "gold.sums" in shown
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_an_interrupt_whose_cleaning_up_fails_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal to all processes of a command ends Spark's JVM, too: what then asks the JVM fails."""

    def interrupted(**_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("Answer from Java side is empty")

    monkeypatch.setattr(main, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("error", [RuntimeError("reentrant call"), AccountError("does not balance")])
def test_whatever_is_seen_of_an_interrupt_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """The thread that the signal interrupts may meet another error, such as of a cancelled job."""

    def failed(**_: object) -> None:
        with suppress(KeyboardInterrupt):
            stop_signals.interrupt()
        raise error

    monkeypatch.setattr(stop_signals, "_interrupted", threading.Event())
    monkeypatch.setattr(main, "app", failed)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_an_error_without_an_interrupt_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(**_: object) -> None:
        error = LookupError("then")
        error.__context__ = OSError("first")
        raise error

    monkeypatch.setattr(main, "app", failed)
    with pytest.raises(LookupError, match="then"):
        main.main()


@pytest.mark.long
def test_an_object_store_that_does_not_answer_is_one_error(tmp_path: Path) -> None:
    """Nothing listens on the port that this test has closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    store = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    words = ["status", "-p", str(EXAMPLE), "--set", "warehouse=s3a://lake/t", "--set", f"data_dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "orchestration", *words],
        env=os.environ | store | keys,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "error: the object store: " in done.stderr
    assert "AWS_ENDPOINT_URL" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_reason_of_a_store_is_found_in_the_texts_of_both_libraries() -> None:
    arrow = (
        "When getting information for key 'k': AWS Error ACCESS_DENIED during HeadObject operation: No body."
    )
    mark = "\x1b[31m↳\x1b[0m"
    delta = f"Kernel error -> Generic S3 error\n  {mark} HTTP error\n    {mark} tcp connect error\n"
    assert store_failure(OSError(arrow)) == "No body (ACCESS_DENIED)"
    assert store_failure(OSError(delta)) == "tcp connect error (Generic S3 error)"
    assert store_failure(OSError(28, "No space left on device")) is None
