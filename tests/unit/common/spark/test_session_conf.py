"""Spark's settings are chosen by the master, and give way to the user's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.errors import SettingsError
from common.spark import session_conf as spark_conf
from common.spark.session import session_conf
from orchestration.author.check.settings import doubtful_settings

JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))
ADAPTIVE = "spark.sql.adaptive.enabled"
ZONE = "spark.sql.session.timeZone"
FILES = "spark.hadoop.fs.file.impl"


def session(
    tmp_path: Path, *settings: str, submitted: Mapping[str, str] | None = None, options: tuple[str, ...] = ()
) -> dict[str, str]:
    """What a session is configured with."""
    file = tmp_path / "medallion.yaml"
    file.touch()
    loaded = load_settings(file=file, overrides=settings)
    return session_conf(loaded, "job", tmp_path / "log", JARS, options, submitted or {})


@pytest.mark.parametrize(
    ("master", "profile"),
    [
        ("local", "small"),
        ("local[*]", "small"),
        ("local[2, 4]", "small"),
        ("local-cluster[2,1,1024]", "cluster"),
        ("spark://host:7077", "cluster"),
        ("yarn", "cluster"),
        ("k8s://https://host", "cluster"),
    ],
)
def test_the_master_chooses_the_profile(master: str, profile: str) -> None:
    assert spark_conf.profile_of(master) == profile


def test_each_setting_is_there_once() -> None:
    assert max(Counter(one.key for one in spark_conf.ALL).values()) == 1


def test_each_setting_says_why_in_a_sentence() -> None:
    assert [one.key for one in spark_conf.ALL if not one.why.endswith(".")] == []


def test_a_value_without_a_place_on_the_page_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"spark\.made\.up"):
        spark_conf.values("small", {"spark.made.up": "1"})
    with pytest.raises(AssertionError, match=r"spark\.jars"):
        spark_conf.values("small", {spark_conf.JARS: "a.jar"})


def test_one_machine_and_a_cluster_differ_where_the_page_says_so(tmp_path: Path) -> None:
    small = session(tmp_path, "spark.master=local[2]")
    cluster = session(tmp_path, "spark.master=spark://host:7077")
    assert (small[ADAPTIVE], small[FILES]) == ("false", "medallion.disk.LocalDisk")
    assert not {ADAPTIVE, FILES} & cluster.keys()
    assert small[spark_conf.CLASS_PATH] == "/jars/a.jar:/jars/b.jar"
    assert cluster[spark_conf.JARS] == "/jars/a.jar,/jars/b.jar"
    told = {one.key for one in spark_conf.ALL if one.small != one.cluster}
    differ = {key for key in small.keys() | cluster.keys() if small.get(key) != cluster.get(key)}
    assert differ - {spark_conf.MASTER} == told


@pytest.mark.parametrize(
    ("master", "key", "separator"),
    [("local[2]", spark_conf.CLASS_PATH, ":"), ("spark://host:7077", spark_conf.JARS, ",")],
)
def test_the_users_jars_follow_the_engines(tmp_path: Path, master: str, key: str, separator: str) -> None:
    """They once replaced them: Spark then started without Delta's classes."""
    found = session(tmp_path, f"spark.master={master}", f"spark.conf.{key}=/own/c.jar")
    assert found[key] == separator.join(["/jars/a.jar", "/jars/b.jar", "/own/c.jar"])


def test_uploads_to_s3_need_no_local_disk_of_hadoops_own(tmp_path: Path) -> None:
    """S3A casts the local file system to Hadoop's own class, which the engine's is not."""
    found = session(tmp_path, "spark.master=local[2]")
    assert found[FILES] == "medallion.disk.LocalDisk"
    assert found["spark.hadoop.fs.s3a.fast.upload.buffer"] == "array"


def test_a_cluster_keeps_the_users_class_path(tmp_path: Path) -> None:
    given = ("spark.master=spark://host:7077", f"spark.conf.{spark_conf.CLASS_PATH}=/own/c.jar")
    assert session(tmp_path, *given)[spark_conf.CLASS_PATH] == "/own/c.jar"


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_nothing_is_set_that_the_page_does_not_tell(tmp_path: Path, master: str) -> None:
    found = session(tmp_path, f"spark.master={master}", "silver.schema_registry=http://host")
    assert found.keys() <= {one.key for one in spark_conf.ALL}


def test_the_engines_settings_say_what_is_to_be_chosen(tmp_path: Path) -> None:
    found = session(
        tmp_path,
        "spark.shuffle_partitions=7",
        "spark.state_store=memory",
        "spark.driver_memory=3g",
        "spark.ui=true",
    )
    assert found[spark_conf.SHUFFLE_PARTITIONS] == "7"
    assert found[spark_conf.STATE_STORE] == spark_conf.STATE_STORES["memory"]
    assert (found[spark_conf.DRIVER_MEMORY], found[spark_conf.UI]) == ("3g", "true")


def test_the_users_own_setting_wins_over_every_one_that_is_told_to_give_way(tmp_path: Path) -> None:
    keys = [one.key for one in spark_conf.ALL if one not in spark_conf.OURS]
    found = session(tmp_path, *(f"spark.conf.{key}=mine" for key in keys))
    assert {key: found[key] for key in keys} == dict.fromkeys(keys, "mine")


def test_what_is_submitted_wins_over_the_settings(tmp_path: Path) -> None:
    submitted = {ZONE: "Europe/Paris", spark_conf.APP_NAME: "theirs"}
    found = session(tmp_path, f"spark.conf.{ZONE}=Asia/Tokyo", submitted=submitted)
    assert (found[ZONE], found[spark_conf.APP_NAME]) == ("Europe/Paris", "theirs")


def test_the_submitted_master_chooses_the_profile(tmp_path: Path) -> None:
    found = session(tmp_path, "spark.master=local[2]", submitted={spark_conf.MASTER: "yarn"})
    assert found[spark_conf.MASTER] == "yarn"
    assert FILES not in found


def test_java_options_of_the_user_come_after_ours(tmp_path: Path) -> None:
    found = session(tmp_path, f"spark.conf.{spark_conf.JAVA_OPTIONS}=-Xss4m", options=("-Dmedallion.log=x",))
    assert found[spark_conf.JAVA_OPTIONS] == "-Dmedallion.log=x -Xss4m"


@pytest.mark.parametrize("name", spark_conf.LOSES_ROWS)
def test_a_setting_with_which_rows_are_lost_is_refused(tmp_path: Path, name: str) -> None:
    """In ``spark.conf`` and from `spark-submit`, and by ``check``; another value is no fault."""
    value, _ = spark_conf.LOSES_ROWS[name]
    told = f"{name} is {value}: .*rows of .* out of spark.conf"
    with pytest.raises(SettingsError, match=told):
        session(tmp_path, f"spark.conf.{name}={value.upper()}")
    with pytest.raises(SettingsError, match=told):
        session(tmp_path, submitted={name: value})
    session(tmp_path, f"spark.conf.{name}=min")
    settings = load_settings(overrides=[f"spark.conf.{name}={value}"])
    (doubt,) = doubtful_settings(None, settings)
    assert doubt.message.startswith(f"{name} is {value}: ")


def test_a_pause_of_the_machine_is_no_loss_of_the_driver(tmp_path: Path) -> None:
    """On one machine, driver and executor are one process: a suspended laptop must not end it."""
    timeouts = ("spark.network.timeout", "spark.storage.blockManagerHeartbeatTimeoutMs")
    found = session(tmp_path)
    assert [found[key] for key in timeouts] == ["30d", "30d"]
    assert int(found["spark.executor.heartbeat.maxFailures"]) == 2**31 - 1
    cluster = session(tmp_path, "spark.master=spark://host:7077")
    assert not {*timeouts, "spark.executor.heartbeat.maxFailures"} & cluster.keys()
