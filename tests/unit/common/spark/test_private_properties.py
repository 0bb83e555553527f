"""Settings of Spark that may be passwords go through a file of their owner's, on no command line."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

import pytest

from common.spark.private_properties import submitted_by_file

CONF = {
    "spark.hadoop.fs.s3a.secret.key": "p=ss: #w\\rd \t'\"€😀",
    "spark.app.name": "shop",
}


def properties(file: Path) -> dict[str, str]:
    """The entries of a Java properties file whose special letters are all escaped."""
    lines = file.read_text(encoding="ascii").splitlines()
    texts = (line.encode("ascii").decode("unicode_escape") for line in lines if line)
    pairs = (text.encode("utf-16", "surrogatepass").decode("utf-16").partition("=") for text in texts)
    return {name: value for name, _, value in pairs}


def test_they_are_in_a_file_that_its_owner_alone_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    with submitted_by_file(CONF):
        words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        file = Path(words[words.index("--properties-file") + 1])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert properties(file) == CONF
        assert words[-1] == "pyspark-shell"
        assert CONF["spark.hadoop.fs.s3a.secret.key"] not in os.environ["PYSPARK_SUBMIT_ARGS"]
    assert not file.exists()
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


def test_a_file_of_the_users_own_counts_and_what_is_given_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "own.conf").write_text("spark.app.name=mine\nspark.ui.port=4050\n")
    own = f"--properties-file {tmp_path / 'own.conf'} --name x pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", own)
    with submitted_by_file(CONF):
        words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        assert words.count("--properties-file") == 1
        assert words[-3:] == ["--name", "x", "pyspark-shell"]
        file = Path(words[words.index("--properties-file") + 1])
        assert properties(file) == {"spark.ui.port": "4050", **CONF}
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == own
