"""The local disk of the JVM: one winner per name, real permissions, and no process started per file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

VERSIONS = 300

WRITER = """
import sys
from pathlib import Path
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.java.compile_sources import reader_jar
from common.config.settings import load_settings
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
import pyspark

settings = load_settings(file=None, overrides=[])
jars = Path(pyspark.__file__).parent / "jars"
paths = [f"{jars}/*", *map(str, require(settings, "spark")), str(reader_jar(settings))]
port, token = launch_gateway(
    jarpath=str(next(jars.glob("py4j-*.jar"))), classpath=":".join(paths),
    java_path=str(find_java(settings).executable),
    javaopts=["-XX:TieredStopAtLevel=1"], die_on_exit=True, enable_auth=True,
)
gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
jvm = gateway.jvm
store = jvm.medallion.disk.LinkLogStore(jvm.org.apache.hadoop.conf.Configuration())
conf = jvm.org.apache.hadoop.conf.Configuration()
me, log, versions = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
won = []
for version in range(versions):
    path = jvm.org.apache.hadoop.fs.Path(f"{log}/{version:020}.json")
    actions = jvm.java.util.ArrayList()
    actions.add('{"commitInfo":{"engineInfo":"' + me + '"}}')
    try:
        store.write(path, actions.iterator(), False, conf)
    except Exception as error:
        if "FileAlreadyExistsException" not in str(error):
            raise
    else:
        won.append(version)
print(",".join(map(str, won)), flush=True)
gateway.shutdown()
"""


@pytest.fixture
def disk(spark: Any, tmp_path: Path) -> Any:
    """The file system that the session has for a local path."""
    path = spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    return path.getFileSystem(spark._jsc.hadoopConfiguration())


def at(spark: Any, path: Path) -> Any:
    """A path as Hadoop has it."""
    return spark._jvm.org.apache.hadoop.fs.Path(str(path))


def test_a_session_on_this_machine_uses_it(disk: Any, spark: Any) -> None:
    assert disk.getClass().getName() == "medallion.disk.LocalDisk"
    assert spark.conf.get("spark.delta.logStore.file.impl") == "medallion.disk.LinkLogStore"


def test_a_file_is_what_the_operating_system_says(disk: Any, spark: Any, tmp_path: Path) -> None:
    """Length, times, owner, permissions; a link is followed."""
    file = tmp_path / "file"
    file.write_bytes(b"four")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to(file)
    for name in ("file", "link"):
        found = disk.getFileStatus(at(spark, tmp_path / name))
        assert (found.getLen(), found.isFile(), found.getPermission().toShort()) == (4, True, 0o640)
        assert found.getOwner() == file.owner()
        assert found.getModificationTime() == file.stat().st_mtime_ns // 1_000_000
    assert disk.getFileLinkStatus(at(spark, tmp_path / "link")).isSymlink()
    disk.setPermission(at(spark, file), spark._jvm.org.apache.hadoop.fs.permission.FsPermission(0o751))
    assert file.stat().st_mode & 0o777 == 0o751
    for missing in (tmp_path / "no", file / "under a file"):
        with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
            disk.getFileStatus(at(spark, missing))


def test_files_are_copied_as_state_snapshots_are(disk: Any, spark: Any, tmp_path: Path) -> None:
    """By the methods with which Spark keeps and loads RocksDB's files."""
    source, copy, back = tmp_path / "1.sst", tmp_path / "state" / "1.sst", tmp_path / "local" / "1.sst"
    source.write_bytes(b"first")
    disk.copyFromLocalFile(at(spark, source), at(spark, copy))
    disk.copyToLocalFile(at(spark, copy), at(spark, back))
    assert (copy.read_bytes(), back.read_bytes()) == (b"first", b"first")
    source.write_bytes(b"second")
    disk.copyFromLocalFile(True, True, at(spark, source), at(spark, copy))
    assert (copy.read_bytes(), source.exists()) == (b"second", False)
    with pytest.raises(Py4JJavaError, match=r"PathExistsException|already exists"):
        disk.copyFromLocalFile(False, False, at(spark, back), at(spark, copy))


def test_a_name_that_is_taken_is_not_taken_over(disk: Any, spark: Any, tmp_path: Path) -> None:
    """By neither of Hadoop's two interfaces; a free one is given, and folders move as ever."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    assert disk.rename(at(spark, tmp_path / "a"), at(spark, tmp_path / "b")) is False
    files = spark._jvm.org.apache.hadoop.fs.FileContext.getFileContext(spark._jsc.hadoopConfiguration())
    none = spark.sparkContext._gateway.new_array(spark._jvm.org.apache.hadoop.fs.Options.Rename, 0)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        files.rename(at(spark, tmp_path / "a"), at(spark, tmp_path / "b"), none)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "a", "b": "b"}
    files.rename(at(spark, tmp_path / "a"), at(spark, tmp_path / "c"), none)
    assert disk.rename(at(spark, tmp_path / "b"), at(spark, tmp_path / "d"))
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"c": "a", "d": "b"}
    (tmp_path / "folder").mkdir()
    assert disk.rename(at(spark, tmp_path / "folder"), at(spark, tmp_path / "moved"))
    assert (tmp_path / "moved").is_dir()


def test_of_two_processes_one_writes_each_version_and_what_it_wrote_stays(tmp_path: Path) -> None:
    """Both are told the truth: who was told that a version is written finds their own there."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    command = [sys.executable, "-c", WRITER]
    writers = {
        name: subprocess.Popen(
            [*command, name, str(log), str(VERSIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    }
    for writer in writers.values():
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers.values():
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    won: dict[int, str] = {}
    for name, writer in writers.items():
        told, _ = writer.communicate(timeout=120)
        for version in filter(None, told.strip().split(",")):
            assert int(version) not in won
            won[int(version)] = name
    assert sorted(won) == list(range(VERSIONS))
    for version, name in won.items():
        assert f'"{name}"' in (log / f"{version:020}.json").read_text(encoding="utf-8")
    assert [file.name for file in log.iterdir() if file.suffix != ".json"] == []


@pytest.fixture
def names(spark: Any, tmp_path: Path) -> Any:
    """Names of a log's files from one on, by the session's log store and by Hadoop's way."""
    conf = spark._jsc.hadoopConfiguration()
    own = spark._jvm.medallion.disk.LinkLogStore(conf)
    hadoop = spark._jvm.io.delta.storage.LocalLogStore(conf)

    def listed(store: Any, name: str) -> list[tuple[str, int, int]]:
        found, files = store.listFrom(at(spark, tmp_path / name), conf), []
        while found.hasNext():
            file = found.next()
            files.append((file.getPath().toString(), file.getLen(), file.getModificationTime()))
        return files

    def both(name: str) -> list[str]:
        files = listed(own, name)
        assert files == listed(hadoop, name)
        return [path.rpartition("/")[2] for path, _, _ in files]

    both.own = lambda name: [path.rpartition("/")[2] for path, _, _ in listed(own, name)]  # type: ignore[attr-defined]
    return both


def commit(log: Path, *versions: int) -> None:
    for version in versions:
        (log / f"{version:020}.json").write_text(f"{version}")
        (log / f"{version:020}.crc").write_text("{}")


def test_a_log_has_the_same_files_as_by_hadoops_way(names: Any, tmp_path: Path) -> None:
    """Growing, with a checkpoint, with a hole, with a cleaned up begin, and created again."""
    commit(tmp_path, *range(12))
    (tmp_path / f"{10:020}.checkpoint.parquet").write_bytes(b"parquet")
    (tmp_path / f".{11:020}.json.draft.tmp").touch()
    starts = [f"{n:020}{end}" for n in (0, 3, 10, 12, 13, 15, 40) for end in (".", ".checkpoint", ".json")]

    def same() -> None:
        for start in starts * 2:
            names(start)

    same()
    commit(tmp_path, 12, 13, 14)
    same()
    assert names(f"{13:020}.json") == [f"{13:020}.json", f"{14:020}.crc", f"{14:020}.json"]
    (tmp_path / f"{12:020}.json").unlink()
    same()
    for version in range(9):
        (tmp_path / f"{version:020}.json").unlink()
    same()
    for file in tmp_path.iterdir():
        file.unlink()
    commit(tmp_path, 0, 1)
    same()


def test_a_log_that_grows_is_not_read_again(names: Any, spark: Any, tmp_path: Path) -> None:
    """A file whose name cannot be guessed is found only where the folder is read."""
    commit(tmp_path, *range(5))
    start = f"{3:020}."
    assert len(names(start)) == 4
    part = f"{4:020}.checkpoint.0000000001.0000000002.parquet"
    (tmp_path / part).touch()
    commit(tmp_path, 5)
    assert part not in names.own(start)
    assert f"{5:020}.json" in names.own(start)
    (tmp_path / f"{6:020}.unknown").touch()
    assert names.own(f"{6:020}.") == []
    commit(tmp_path, 6)
    assert names.own(f"{6:020}.") == [f"{6:020}.crc", f"{6:020}.json"]
    (tmp_path / "_last_checkpoint").write_text('{"version":4,"size":3,"parts":2}')
    assert part in names(start)
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        names.own("missing/" + start)


@pytest.mark.long
def test_much_of_a_log_is_read_at_once(names: Any, tmp_path: Path) -> None:
    commit(tmp_path, *range(1100))
    assert len(names(f"{0:020}.")) == 2200
    assert len(names(f"{1000:020}.")) == 200
    commit(tmp_path, *range(1100, 2300))
    assert len(names(f"{1050:020}.")) == 2500
