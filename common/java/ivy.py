"""Downloads jars from a Maven repository with the Ivy that pyspark contains, so users' mirrors work.

``common.java.jar_cache`` selects the jars and verifies them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import ssl
import struct
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from xml.sax.saxutils import quoteattr

from common.errors import JarError
from common.java.find_java import Java

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""
             timeoutConstraint="patience"/>
  </resolvers>
</ivysettings>
"""
# No poms: the lock names all jars, so no dependency is looked up. No checksums: the lock has sha256.

_ARRIVED = re.compile(r"\[SUCCESSFUL ]\s+(?P<group>[^#]+)#(?P<artifact>[^;]+);(?P<version>[^!]+)!")
_CAUSE = re.compile(
    r"Server access error|Host \S+ not found|exception:|Impossible|cannot|timed out", re.IGNORECASE
)
_TRUST_PASSWORD = "changeit"  # noqa: S105  # the usual password of Java's trust stores, which hold no secret


@dataclass(frozen=True, slots=True)
class Ivy:
    """A configured Ivy."""

    java: Java  # the Java that runs Ivy
    settings: Path | None  # the user's ivysettings.xml; None: Maven Central
    log: Path  # the file to which Ivy's output is appended

    def retrieve(self, coordinates: Sequence[str], folder: Path) -> Iterator[str]:
        """Download jars into a subfolder of a folder, as ``<artifact>-<version>.jar``.

        Args:
            coordinates: ``group:artifact:version``; each artifact once, because Ivy takes one version of it.
            folder: An empty folder, also for Ivy's cache.

        Yields:
            Each coordinate when it is downloaded. For a jar that is not yielded, the log has the reason.
        """
        with self.log.open("a", encoding="utf-8") as log:
            for line in _lines(self._command(coordinates, folder)):
                log.write(line)
                found = _ARRIVED.search(line)
                if found:
                    yield ":".join(found.group("group", "artifact", "version"))

    def _command(self, coordinates: Sequence[str], folder: Path) -> list[str]:
        ivy_file = folder / "ivy.xml"
        ivy_file.write_text(_ivy_file(coordinates))
        flags = ["-Xmx256m", *_proxy_flags(), *_trust_flags(self.java, folder)]
        settings = self.settings
        if settings is None:
            settings = folder / "ivysettings.xml"
            settings.write_text(_SETTINGS)
            flags.append(f"-Divy.default.ivy.user.dir={folder / 'home'}")
        command = [str(self.java.executable), *flags, "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
        command += ["-settings", str(settings), "-ivy", str(ivy_file), "-cache", str(folder / "cache")]
        return [*command, "-confs", "default", "-retrieve", str(folder / "jars/[artifact]-[revision].[ext]")]


def failure_lines(log: Path, count: int = 4) -> list[str]:
    """The lines of a log with the cause of a failure; else with what was not found; else the last ones."""
    words = (line.strip() for line in log.read_text(errors="replace").splitlines())
    lines = [line for line in dict.fromkeys(words) if line]
    causes = [line for line in lines if _CAUSE.search(line)]
    return (causes or [line for line in lines if line.endswith("not found")] or lines)[-count:]


def _lines(command: Sequence[str]) -> Iterator[str]:
    """The output of a program, line by line; the program is killed when the iteration ends."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield from process.stdout or ()
        finally:
            process.kill()


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path("pyspark/jars")
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise JarError(
            f"{folder}: pyspark's ivy-*.jar is missing, which downloads jars. "
            f"Reinstall it: pip install --force-reinstall --no-deps pyspark=={version('pyspark')}"
        )
    return found[-1]


def _ivy_file(coordinates: Iterable[str]) -> str:
    lines = []
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        names = f"org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}"
        lines.append(f'    <dependency {names} transitive="false" conf="default->default"/>')
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            '  <info organisation="medallion" module="jars" revision="1"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            *lines,
            "  </dependencies>",
            "</ivy-module>",
        ]
    )


def _proxy_flags() -> list[str]:
    """The environment's proxy variables as Java's options, because Java does not read those variables."""
    proxies = urllib.request.getproxies()
    flags: list[str] = []
    for scheme in ("http", "https"):
        proxy = urllib.parse.urlsplit(proxies.get(scheme, ""))
        if proxy.hostname:
            port = proxy.port or (443 if proxy.scheme == "https" else 80)
            flags += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={port}"]
    if flags and proxies.get("no"):
        direct = (name.strip() for name in proxies["no"].split(","))
        hosts = "|".join(f"*{name}" if name.startswith(".") else name for name in direct if name)
        flags.append(f"-Dhttp.nonProxyHosts={hosts}")
    return flags


def _trust_flags(java: Java, folder: Path) -> list[str]:
    """Have the bundled Java trust this machine's certificates, among them those of a company's authority."""
    if not java.is_bundled:
        return []
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return []
    store = folder / "trust.jks"
    store.write_bytes(_trust_store(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_TRUST_PASSWORD}",
    ]


def _trust_store(certificates: Sequence[bytes]) -> bytes:
    """Certificates as a Java key store of type JKS: header, a trusted entry per certificate, keyed digest."""

    def text(value: str) -> bytes:
        return struct.pack(">H", len(value)) + value.encode("ascii")

    content = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        entry = struct.pack(">I", 2) + text(f"ca-{number}") + struct.pack(">Q", 0) + text("X.509")
        content += entry + struct.pack(">I", len(certificate)) + certificate
    salt = _TRUST_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"  # the format's own constant
    return content + hashlib.sha1(salt + content, usedforsecurity=False).digest()
