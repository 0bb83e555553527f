"""The locked jars in the user's cache: downloaded once, verified at every use, exported for other machines.

Spark resolves no packages at run time. ``common.java.jar_lock`` reads the lock; ``common.java.ivy``
downloads.

    <cache>/<set>/<artifact>-<version>.jar      fetch.lock      fetch.log
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from common.config import object_store
from common.config.paths import expanded, user_cache, user_home
from common.config.settings import Settings
from common.errors import JarError, SettingsError
from common.java.find_java import find_java
from common.java.ivy import Ivy, failure_lines
from common.java.jar_lock import LOCK, Jar, State, jar_sets, lock_text, locked
from common.machine.terminal import Arrival, arrivals, megabytes, say

PACKAGES = "packages"
"""The set of the jars that the setting ``spark.packages`` names; the lock has the other sets."""

_FILE_MODE, _FOLDER_MODE = 0o644, 0o755
"""All users of a shared cache read its jars, whatever ``data_mode`` is."""


def cache_dir(settings: Settings) -> Path:
    """Folder of the jars: the setting ``jars.cache_dir``, else ``medallion/jars`` in the user's cache."""
    own = settings.jars.cache_dir
    return expanded(own).resolve() if own else user_cache() / "jars"


def jar_path(settings: Settings, jar: Jar) -> Path:
    """Path of a jar in the cache, whether the file exists or not."""
    return cache_dir(settings) / jar.set / jar.file_name


def jars_of(settings: Settings, *sets: str) -> tuple[Jar, ...]:
    """The jars of these sets, those that the settings name last; without a name those of all sets.

    Raises:
        UsageError: There is no set of that name.
    """
    of_lock = [name for name in sets if name != PACKAGES]
    found = locked(*of_lock) if of_lock or not sets else ()
    return (*found, *_packages(settings)) if PACKAGES in sets or not sets else found


def session_sets(settings: Settings, *sets: str) -> tuple[str, ...]:
    """The sets of jars of a Spark session, in the order of its class path, of which its archive is one."""
    return (*(sets or ("spark",)), *object_store.jar_sets(settings), PACKAGES)


def _packages(settings: Settings) -> Iterator[Jar]:
    for coordinate, sha256 in settings.spark.packages.items():
        group, artifact, version = coordinate.split(":")
        named = Jar(PACKAGES, group, artifact, version, sha256, 0)
        path = jar_path(settings, named)
        yield replace(named, size_bytes=path.stat().st_size) if path.is_file() else named


def verify(settings: Settings, *sets: str) -> list[tuple[Jar, State]]:
    """Each jar of these sets with its state in the cache; reads every byte."""
    return [(jar, jar.state_of(jar_path(settings, jar))) for jar in jars_of(settings, *sets)]


def require(settings: Settings, *sets: str) -> tuple[Path, ...]:
    """Paths of all jars of these sets, every one verified; fetches missing and altered jars first.

    With a complete cache this neither starts Java nor uses the network.

    Raises:
        JarError: A jar cannot be fetched, or has another sha256 than the locked one.
        JavaError: A jar must be fetched, and there is no Java that can do it.
    """
    fetch(settings, *sets)
    return tuple(jar_path(settings, jar) for jar in jars_of(settings, *sets))


def fetch(settings: Settings, *sets: str, source: Path | None = None) -> tuple[Jar, ...]:
    """Fetch missing and altered jars into the cache, with progress on stderr; returns the fetched jars.

    Several processes may call this at once: one fetches, the others wait for it.

    Args:
        sets: Sets of jars; none: all.
        source: A bundle of ``export``, instead of the network.

    Raises:
        JarError: As ``require``.
        JavaError: As ``require``; a bundle needs no Java.
    """
    if not _missing_or_altered(settings, *sets):
        return ()
    console = Console(stderr=True)
    cache = cache_dir(settings)
    with _fetch_lock(cache, console):
        faults = _missing_or_altered(settings, *sets)
        if not faults:  # the previous holder of the lock has fetched them
            return ()
        _announce(console, settings, faults, source)
        wanted = [jar for jar, _ in faults]
        with (
            tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as scratch,
            arrivals(console, len(wanted), sum(jar.size_bytes for jar in wanted)) as arrived,
        ):
            if source:
                _from_bundle(settings, wanted, source, Path(scratch), arrived)
            else:
                _from_repository(settings, wanted, Path(scratch), arrived)
        say(console, f"{_jar_count(wanted)} fetched and verified")
    return tuple(wanted)


def bundle_sets(source: Path) -> tuple[str, ...]:
    """Names of the sets of jars in a bundle."""
    return tuple(name for name in (*jar_sets(), PACKAGES) if (source / name).is_dir())


def export(settings: Settings, target: Path, *sets: str) -> tuple[Path, ...]:
    """Write a bundle for a machine without network: jars and their lock; returns the paths of the jars.

    Raises:
        JarError: A jar cannot be fetched, or the folder cannot be written.
    """
    paths = require(settings, *sets)
    jars = jars_of(settings, *sets)
    copies = []
    try:
        for jar, path in zip(jars, paths, strict=True):
            copy = target / jar.set / jar.file_name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            copies.append(copy)
        (target / LOCK.name).write_text(lock_text(jars))
    except OSError as error:
        raise JarError(
            f"{target}: the bundle cannot be written ({error.strerror}). Name another folder."
        ) from error
    return tuple(copies)


def _missing_or_altered(settings: Settings, *sets: str) -> list[tuple[Jar, State]]:
    return [(jar, state) for jar, state in verify(settings, *sets) if state != "ok"]


@contextlib.contextmanager
def _fetch_lock(cache: Path, console: Console) -> Iterator[None]:
    """Hold the cache's lock, which the kernel releases if this process dies."""
    try:
        if not cache.exists():
            cache.mkdir(parents=True, exist_ok=True)
            cache.chmod(_FOLDER_MODE)
        held = (cache / "fetch.lock").open("w")
    except OSError as error:
        raise JarError(
            f"{cache}: jars cannot be written here ({error.strerror}). "
            "Name a folder of your own with the setting jars.cache_dir."
        ) from error
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(console, f"another process is fetching jars into {cache}; waiting for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        for left in cache.glob(".fetch-*"):  # folders of a killed fetch
            shutil.rmtree(left, ignore_errors=True)
        yield


def _announce(
    console: Console, settings: Settings, faults: Sequence[tuple[Jar, State]], source: Path | None
) -> None:
    known = {jar.set for jar, _ in faults if (cache_dir(settings) / jar.set).is_dir()}
    for jar, state in faults:
        if jar.set in known:  # jars of a set that was never fetched are not listed
            say(
                console,
                f"{jar_path(settings, jar)} {_fault(jar, state, jar_path(settings, jar))}; fetching it again",
            )
    size = megabytes(sum(jar.size_bytes for jar, _ in faults))
    origin = f" from {source}" if source else ""
    say(
        console,
        f"fetching {_jar_count(faults)}, {size}, once, into {_home_as_tilde(cache_dir(settings))}{origin}",
    )


def _fault(jar: Jar, state: State, path: Path) -> str:
    if state == "missing":
        return "is missing"
    size_bytes = path.stat().st_size
    if size_bytes < jar.size_bytes:
        return f"is cut short ({size_bytes} of {jar.size_bytes} bytes)"
    return "is altered (its sha256 is not the locked one)"


def _from_repository(settings: Settings, wanted: Sequence[Jar], scratch: Path, arrived: Arrival) -> None:
    own = settings.jars.ivy_settings
    if own is not None and not expanded(own).is_file():
        raise SettingsError(f"jars.ivy_settings: {own}: no such file. Name an ivysettings.xml, or unset it.")
    log = cache_dir(settings) / "fetch.log"
    log.write_text("")
    downloader = Ivy(find_java(settings), expanded(own).resolve() if own else None, log)
    left = list(wanted)
    for attempt in range(3):  # another attempt only if the previous one fetched a jar
        before = len(left)
        for name in dict.fromkeys(jar.set for jar in left):  # sets may have different versions of a jar
            folder = scratch / f"{name}-{attempt}"
            folder.mkdir()
            batch = {jar.coordinate: jar for jar in left if jar.set == name}
            for coordinate in downloader.retrieve(list(batch), folder):
                if coordinate in batch:  # the user's Ivy settings may download more
                    arrived(batch[coordinate].file_name, batch[coordinate].size_bytes)
            left = [jar for jar in left if jar.set != name or not _move_if_intact(settings, jar, folder)]
        if not left or len(left) == before:
            break
    if left:
        raise _not_fetched(settings, left, wanted, scratch)


def _move_if_intact(settings: Settings, jar: Jar, folder: Path) -> bool:
    """Move a jar from a subfolder of a folder into the cache if it is the locked one."""
    for found in sorted(folder.rglob(jar.file_name)):
        if jar.state_of(found) == "ok":
            target = jar_path(settings, jar)
            if not target.parent.exists():
                target.parent.mkdir()
                target.parent.chmod(_FOLDER_MODE)
            found.chmod(_FILE_MODE)
            found.replace(target)
            return True
    return False


def _from_bundle(
    settings: Settings, wanted: Sequence[Jar], source: Path, scratch: Path, arrived: Arrival
) -> None:
    faults = [(jar, jar.state_of(source / jar.set / jar.file_name)) for jar in wanted]
    bad = [f"{jar.set}/{jar.file_name} is {state}" for jar, state in faults if state != "ok"]
    if bad:
        raise JarError(
            f"{source}: not a bundle of these jars ({'; '.join(bad[:5])}{'; …' if len(bad) > 5 else ''}). "  # noqa: PLR2004
            "Make one with this version of medallion, where there is a network: medallion jars export DIR"
        )
    for jar in wanted:
        copy = scratch / jar.file_name
        shutil.copyfile(source / jar.set / jar.file_name, copy)
        if not _move_if_intact(settings, jar, scratch):
            raise JarError(f"{source / jar.set / jar.file_name} changed while it was read. Try again.")
        arrived(jar.file_name, jar.size_bytes)


def _not_fetched(settings: Settings, left: Sequence[Jar], wanted: Sequence[Jar], scratch: Path) -> JarError:
    cache = cache_dir(settings)
    names = ", ".join(jar.coordinate for jar in left[:5]) + (", …" if len(left) > 5 else "")  # noqa: PLR2004
    what = f"{len(left)} of {len(wanted)} jars could not be fetched into {_home_as_tilde(cache)}: {names}."
    other = {jar.coordinate: found for jar in left for found in scratch.rglob(jar.file_name)}
    if other:
        digests = ", ".join(
            f"{coordinate} has {hashlib.sha256(file.read_bytes()).hexdigest()}"
            for coordinate, file in list(other.items())[:5]
        )
        what += f" The sha256 of {len(other)} is not the locked one: {digests} (refused)."
    log = cache / "fetch.log"
    return JarError(
        f"{what} Check the network, or name your own mirror with the setting jars.ivy_settings, then: "
        "medallion jars fetch. Without a network: medallion jars export DIR on a machine that has one, then "
        "medallion jars fetch --bundle DIR here."
        + "".join(f"\n  {line}" for line in [f"From {log}:", *failure_lines(log)])
    )


def _jar_count(things: Sequence[object]) -> str:
    return "1 jar" if len(things) == 1 else f"{len(things)} jars"


def _home_as_tilde(path: Path) -> str:
    home = user_home()
    return str(path) if home is None or not path.is_relative_to(home) else f"~/{path.relative_to(home)}"
