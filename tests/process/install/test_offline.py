"""With the jars in the cache nothing needs a network; a jar that is damaged is noticed and brought again.

Every proxy and mirror that could be asked is dead, and where the kernel lets an ordinary user make one,
all runs in a network namespace with nothing but loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from deltalake import DeltaTable

from common.config.settings import load_settings
from common.java import jar_cache
from common.java.jar_cache import Jar
from common.machine import processes
from orchestration.access.declaration.load_file import load_pipeline
from tests.support.oracles.oracle import outcome
from tests.support.processes import EXAMPLE, Medallion, medallion

pytestmark = pytest.mark.long

_LOOPBACK_ONLY = ("unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
_DEAD_MIRROR = """\
<ivysettings>
  <settings defaultResolver="nowhere"/>
  <resolvers><ibiblio name="nowhere" m2compatible="true" root="http://127.0.0.1:{port}/"/></resolvers>
</ivysettings>
"""


def dead(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Variables and settings under which whoever asks a network fails at once."""
    port = processes.free_port()
    mirror = folder / "ivysettings.xml"
    mirror.write_text(_DEAD_MIRROR.format(port=port))
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    proxies = dict.fromkeys(names, f"http://127.0.0.1:{port}") | {"NO_PROXY": "", "no_proxy": ""}
    return proxies, [f"jars.ivy_settings={mirror}"]


def namespace() -> tuple[str, ...]:
    """What runs a command with only loopback; nothing, and said so, where that is not allowed."""
    try:
        tried = subprocess.run([*_LOOPBACK_ONLY, "true"], capture_output=True, text=True, check=False)
        refused = tried.stderr.strip() if tried.returncode else ""
    except FileNotFoundError as error:
        refused = str(error)
    if refused:
        print(f"no network namespace here ({refused}): only proxies and mirror are dead")  # noqa: T201
    return () if refused else _LOOPBACK_ONLY


def test_everything_starts_without_a_network(tmp_path: Path) -> None:
    """Setup, a broker with a topic, Spark, and events in every table."""
    within = namespace()
    env, more = dead(tmp_path)
    with medallion(tmp_path) as commands:
        for words in (("setup",), ("produce", "--count", "200", "--rate", "max"), ("backfill",)):
            command = commands.run(*words, more=more, env=env, within=within)
            assert command.code() == 0, command.stderr
        sample = load_pipeline(EXAMPLE).bronze[0].sample
        assert sample is not None
        expected = outcome(list(islice(sample(7), 200)))
        latest = DeltaTable(commands.layout.table_path("gold.quakes_latest")).to_pyarrow_table().to_pylist()
        assert Counter(row["quake_id"] for row in latest) == Counter(list(expected.latest))


class Damaged:
    """A copy of the cache in which one jar is cut short."""

    def __init__(self, commands: Medallion, folder: Path) -> None:
        self.commands, self.folder = commands, folder
        given = load_settings(overrides=[])
        self.jar: Jar = min(jar_cache.locked("kafka-server"), key=lambda jar: jar.size_bytes)
        for jar in jar_cache.locked("spark", "kafka-server"):
            copy = folder / jar.set / jar.file_name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if jar == self.jar:
                whole = jar_cache.jar_path(given, jar).read_bytes()
                copy.write_bytes(whole[: len(whole) // 2])
            else:
                _link(jar_cache.jar_path(given, jar), copy)
        self.path = folder / self.jar.set / self.jar.file_name
        self.more = [f"jars.cache_dir={folder}"]


def _link(source: Path, copy: Path) -> None:
    try:
        os.link(source, copy)
    except OSError:
        shutil.copyfile(source, copy)


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Damaged]:
    """The user's own cache stays as it is."""
    jar_cache.require(load_settings(overrides=[]), "spark", "kafka-server")
    with medallion(tmp_path) as commands:
        yield Damaged(commands, tmp_path / "jars")


def test_a_damaged_jar_is_named_and_without_a_network_the_way_out_is_told(damaged: Damaged) -> None:
    """By the command that looks, and by those that would have run with it; no half jar is ever used."""
    verified = damaged.commands.run("jars", "verify", more=damaged.more)
    assert verified.code() == 1
    assert f"{damaged.path} is altered" in verified.stderr
    env, more = dead(damaged.commands.folder)
    for words in (("setup",), ("produce", "--count", "1")):
        command = damaged.commands.run(*words, more=[*damaged.more, *more], env=env)
        assert command.code() == 1
        assert "Traceback" not in command.stderr
        assert "error: 1 of 1 jars could not be fetched" in command.stderr
        assert damaged.jar.coordinate in command.stderr
        assert "medallion jars fetch --bundle DIR" in command.stderr
        assert not (damaged.commands.folder / "data" / "kafka" / "state.json").exists()


def test_a_damaged_jar_is_brought_again(damaged: Damaged) -> None:
    """That one and no other, and it is what was locked."""
    fetched = damaged.commands.run("jars", "fetch", "--json", "--set-name", "kafka-server", more=damaged.more)
    if fetched.code() and "could not be fetched" in fetched.stderr:
        pytest.skip("the jar repository cannot be reached from here")
    assert fetched.code() == 0, fetched.stderr
    document = json.loads(fetched.stdout)
    assert document["fetched"] == [damaged.jar.coordinate]
    assert {jar["state"] for jar in document["jars"]} == {"ok"}
    assert damaged.path.stat().st_size == damaged.jar.size_bytes
