"""The value reader is compiled once per version, by any Java, and put in its place whole."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from common.config.settings import Settings, load_settings
from common.errors import JarError
from common.java import compile_sources as module
from common.java.compile_sources import compiled, jar_file, reader_jar
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.java.sealed_file import state_of


def settings(folder: Path) -> Settings:
    """Settings with a cache of their own, in which the locked jars are already."""
    (folder / "medallion.yaml").touch()
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    if not (cache / "spark").exists():
        (cache / "spark").symlink_to(
            require(load_settings(file=folder / "medallion.yaml"), "spark")[0].parent
        )
    return load_settings(file=folder / "medallion.yaml", overrides=[f"jars.cache_dir={folder / 'cache'}"])


def test_the_jar_holds_every_class_and_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into an empty cache; a second call finds it and starts no Java."""
    path = reader_jar(settings(tmp_path))
    with zipfile.ZipFile(path) as jar:
        names = set(jar.namelist())
    root = Path(module.__file__).with_name("sources")
    sources = list(root.rglob("*.java"))
    assert len(sources) > 20
    assert {source.with_suffix(".class").relative_to(root).as_posix() for source in sources} <= names
    monkeypatch.setattr(module, "compiled", lambda *_: pytest.fail("built again"))
    assert reader_jar(settings(tmp_path)) == path
    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}.sha256"}


@pytest.mark.parametrize("harm", ["cut", "changed", "without its hash", "with another hash"])
def test_a_jar_that_is_cut_or_changed_is_built_again(
    tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the next start, with the same bytes and the same time; a start without harm builds nothing."""
    path = jar_file(settings(tmp_path))
    monkeypatch.setattr(module, "compiled", lambda *_: {"medallion/A.class": b"code"})
    assert reader_jar(settings(tmp_path)) == path
    whole, time = path.read_bytes(), path.stat().st_mtime
    assert capsys.readouterr().err == ""
    seal = path.with_name(f"{path.name}.sha256")
    if harm == "cut":
        path.write_bytes(whole[:-10])
    elif harm == "changed":
        path.write_bytes(whole[:-1] + b"?")
    elif harm == "without its hash":
        seal.unlink()
    else:
        seal.write_text("0" * 64)
    assert state_of(path) == "altered"
    assert reader_jar(settings(tmp_path)) == path
    assert f"{path} is truncated or altered; rebuilding it" in capsys.readouterr().err
    assert (path.read_bytes(), path.stat().st_mtime, state_of(path)) == (whole, time, "ok")
    monkeypatch.setattr(module, "compiled", lambda *_: pytest.fail("built again"))
    assert reader_jar(settings(tmp_path)) == path


@pytest.mark.long
def test_two_processes_that_build_at_once_both_have_the_jar(tmp_path: Path) -> None:
    """Neither sees half a jar: it is put in its place whole."""
    told = settings(tmp_path)
    code = (
        "import sys; from pathlib import Path; from common.java.compile_sources import reader_jar; "
        "from common.config.settings import load_settings; import zipfile; "
        f"told = load_settings(file=Path({str(tmp_path / 'medallion.yaml')!r}), "
        f"overrides=['jars.cache_dir={told.jars.cache_dir}']); "
        "path = reader_jar(told); assert zipfile.ZipFile(path).testzip() is None; print(path)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=Path(module.__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    paths = {process.communicate(timeout=120)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(paths) == 1
    assert Path(paths.pop()).is_file()


def test_source_that_is_no_java_is_told_with_its_place(tmp_path: Path) -> None:
    java = find_java(settings(tmp_path))
    with pytest.raises(JarError, match=r"cannot be compiled.*medallion/Bad\.java.*Line 1"):
        compiled({"medallion/Bad.java": "package medallion; final class Bad { int x = ; }"}, java, [])


def test_a_cache_that_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(JarError, match=r"jars\.cache_dir"):
        module._write(tmp_path / "cache" / "reader" / "x.jar", {"a.class": b"x"})
