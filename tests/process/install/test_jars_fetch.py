"""Jars really downloaded: from Maven Central, and from a mirror of the user's own."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from common.config.settings import JarSettings, Settings, SparkSettings
from common.errors import JarError
from common.java import jar_cache, jar_lock
from common.java.jar_cache import Jar

pytestmark = pytest.mark.long

SMALL = "avro"  # a set of one jar, 92 kB
ROOT = Path(jar_lock.__file__).parents[2]

MIRROR = """\
<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers>
    <filesystem name="mirror" m2compatible="true" checksums="">
      <artifact pattern="{folder}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""


def test_a_jar_comes_from_maven_central_and_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(jars=JarSettings(cache_dir=tmp_path))

    (path,) = jar_cache.require(settings, SMALL)

    assert path == tmp_path / "avro" / "spark-avro_2.13-4.1.1.jar"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == jar_cache.locked(SMALL)[0].sha256
    assert "fetching 1 jar, 0.1 MB, once, into" in capsys.readouterr().err
    assert sorted(child.name for child in tmp_path.iterdir()) == ["avro", "fetch.lock", "fetch.log"]


def test_two_processes_at_once_fetch_once(tmp_path: Path) -> None:
    code = (
        "import sys; from common.java.jar_cache import fetch; "
        "from common.config.settings import load_settings; "
        "print(len(fetch(load_settings(overrides=[f'jars.cache_dir={sys.argv[1]}']), 'avro')))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)]
    counts = sorted(process.communicate(timeout=120)[0].strip() for process in both)

    assert counts == ["0", "1"]


class TestMirror:
    """The user's own ivysettings.xml is all that is asked; here a folder, so no network at all."""

    @pytest.fixture
    def wanted(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Jar, Jar]:
        """Two jars of ours are locked."""

        def jar(artifact: str) -> Jar:
            digest = hashlib.sha256(artifact.encode()).hexdigest()
            return Jar("ours", "org.example", artifact, "1.0", digest, len(artifact))

        both = (jar("tea"), jar("cup"))
        monkeypatch.setattr(jar_lock, "_lock", lambda: both)
        return both

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        mirror = tmp_path / "ivysettings.xml"
        mirror.write_text(MIRROR.format(folder=tmp_path / "mirror"))
        return Settings(jars=JarSettings(cache_dir=tmp_path / "cache", ivy_settings=mirror))

    def put(self, folder: Path, jar: Jar, content: str) -> None:
        target = folder / "mirror" / jar.group.replace(".", "/") / jar.artifact / jar.version / jar.file_name
        target.parent.mkdir(parents=True)
        target.write_text(content)

    def test_all_jars_come_from_it(self, wanted: tuple[Jar, Jar], settings: Settings, tmp_path: Path) -> None:
        for jar in wanted:
            self.put(tmp_path, jar, jar.artifact)

        assert [path.read_text() for path in jar_cache.require(settings, "ours")] == ["tea", "cup"]

    def test_another_file_than_the_locked_one_is_refused_and_the_good_one_kept(
        self, wanted: tuple[Jar, Jar], settings: Settings, tmp_path: Path
    ) -> None:
        tea, cup = wanted
        self.put(tmp_path, tea, "tea")
        self.put(tmp_path, cup, "mug")

        with pytest.raises(JarError) as caught:
            jar_cache.require(settings, "ours")

        assert "1 of 2 jars could not be fetched" in str(caught.value)
        has = hashlib.sha256(b"mug").hexdigest()
        text = f"The sha256 of 1 is not the locked one: org.example:cup:1.0 has {has} (refused)"
        assert text in str(caught.value)
        assert jar_cache.verify(settings) == [(tea, "ok"), (cup, "missing")]

    def test_jars_of_the_settings_come_from_it_too(
        self, wanted: tuple[Jar, Jar], settings: Settings, tmp_path: Path
    ) -> None:
        tea, cup = wanted
        self.put(tmp_path, tea, "tea")
        named = {jar.coordinate: jar.sha256 for jar in wanted}
        packages = settings.model_copy(update={"spark": SparkSettings(packages=named)})
        with pytest.raises(JarError, match=r"1 of 2 jars could not be fetched.*: org\.example:cup:1\.0\."):
            jar_cache.require(packages, "packages")
        self.put(tmp_path, cup, "cup")
        found = jar_cache.require(packages, "packages")
        assert [(path.parent.name, path.read_text()) for path in found] == [
            ("packages", "tea"),
            ("packages", "cup"),
        ]

    def test_one_that_it_lacks_is_named_and_the_others_kept(
        self, wanted: tuple[Jar, Jar], settings: Settings, tmp_path: Path
    ) -> None:
        tea, cup = wanted
        self.put(tmp_path, tea, "tea")

        with pytest.raises(JarError) as caught:
            jar_cache.require(settings, "ours")

        message = str(caught.value)
        assert "1 of 2 jars could not be fetched" in message
        assert "org.example:cup:1.0" in message
        assert "org.example#cup;1.0: not found" in message
        assert "medallion jars fetch --bundle DIR" in message
        assert jar_cache.verify(settings) == [(tea, "ok"), (cup, "missing")]
