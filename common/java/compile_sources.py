"""Builds the value reader's jar: the Java sources, compiled once per version into the user's cache.

The sources are in ``sources/`` beside this module. They are compiled by janino, which Spark ships, so that
any Java runtime suffices and no JDK is needed. The jar's name contains a hash of the sources and of Spark's
version. The jar's sha256 is stored beside the jar and verified at every start.

    <cache>/reader/value-reader-<hash>.jar      value-reader-<hash>.jar.sha256
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from common.config.settings import Settings
from common.errors import JarError
from common.java.find_java import Java, find_java
from common.java.jar_cache import cache_dir, require
from common.java.sealed_file import seal, state_of
from common.machine.terminal import say

_SOURCES = Path(__file__).with_name("sources")
_FIXED = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes
_FIXED_SECONDS = 315532800.0


def jar_file(settings: Settings) -> Path:
    """Path of the jar, whether the jar exists or not."""
    return cache_dir(settings) / "reader" / f"value-reader-{_digest(_sources())}.jar"


def reader_jar(settings: Settings) -> Path:
    """The verified jar; built first if it is missing, truncated or altered.

    Several processes may build the jar at the same time: the same sources give the same bytes.

    Raises:
        JarError: The sources cannot be compiled, or the jar cannot be written.
        JavaError: The jar must be built and no Java was found.
    """
    path = jar_file(settings)
    state = state_of(path)
    if state == "ok":
        return path
    if state == "altered":
        say(Console(stderr=True), f"{path} is truncated or altered; rebuilding it")
    _write(path, compiled(_sources(), find_java(settings), [*require(settings, "spark")]))
    return path


def compiled(sources: Mapping[str, str], java: Java, beside: Sequence[Path]) -> dict[str, bytes]:
    """Compile Java sources, given by file name, to class files by name; ``beside`` are jars they need.

    Raises:
        JarError: The sources cannot be compiled.
    """
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JError, Py4JJavaError

    jars = _spark_jars()
    try:
        port, token = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            classpath=os.pathsep.join([f"{jars}/*", *map(str, beside)]),
            javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
            java_path=str(java.executable),
            die_on_exit=True,
            enable_auth=True,
        )
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        try:
            return _classes(gateway, sources)
        except Py4JJavaError as error:
            raise JarError(f"The value reader cannot be compiled: {error.java_exception}") from None
        finally:
            gateway.shutdown()
    except (Py4JError, OSError, ValueError, StopIteration) as error:
        raise JarError(
            f"The value reader cannot be compiled: {java.executable} does not start with the jars in {jars}. "
            f"Reinstall it: pip install --force-reinstall --no-deps pyspark=={version('pyspark')}"
        ) from error


def _classes(gateway: object, sources: Mapping[str, str]) -> dict[str, bytes]:
    jvm = gateway.jvm  # type: ignore[attr-defined]
    resource = jvm.org.codehaus.commons.compiler.util.resource
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    found = jvm.java.util.HashMap()
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setClassFileFinder(
        jvm.org.codehaus.commons.compiler.util.resource.ResourceFinder.EMPTY_RESOURCE_FINDER
    )
    compiler.setClassFileCreator(resource.MapResourceCreator(found))
    compiler.setDebugLines(True)
    units = gateway.new_array(resource.Resource, len(sources))  # type: ignore[attr-defined]
    for place, (name, text) in enumerate(sorted(sources.items())):
        units[place] = resource.StringResource(name, text)
    compiler.compile(units)
    return {str(name): bytes(found[name]) for name in found}


def _sources() -> dict[str, str]:
    return {
        file.relative_to(_SOURCES).as_posix(): file.read_text(encoding="utf-8")
        for file in _SOURCES.rglob("*.java")
    }


def _digest(sources: Mapping[str, str]) -> str:
    digest = hashlib.sha256(version("pyspark").encode())
    for name, text in sorted(sources.items()):
        digest.update(f"\0{name}\0{text}".encode())
    return digest.hexdigest()[:16]


def _spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent / "jars" if spec and spec.origin else Path("pyspark/jars")


def _write(path: Path, classes: Mapping[str, bytes]) -> None:
    """Write the jar atomically: another process finds the whole jar, or builds the same bytes itself."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(zipfile.ZipInfo(name, _FIXED), code, zipfile.ZIP_DEFLATED)
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.parent.chmod(0o755)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".build-", delete=False) as draft:
            draft.write(content.getvalue())
        Path(draft.name).chmod(0o644)
        # The class archive records each jar's modification time, which a rebuilt jar must keep.
        os.utime(draft.name, (_FIXED_SECONDS, _FIXED_SECONDS))
        os.replace(draft.name, path)  # noqa: PTH105
        seal(path)
    except OSError as error:
        raise JarError(
            f"{path}: the value reader cannot be written ({error.strerror}). "
            "Name a folder of your own with the setting jars.cache_dir."
        ) from error
