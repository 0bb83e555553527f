"""The locked jars in the per-user cache: brought once, verified at every use, bundled for elsewhere.

Spark never resolves anything at run time. The lock is ``common.java.jar_lock``'s, downloading
``common.java.ivy``'s.

    <cache>/<set>/<artifact>-<version>.jar      fetch.lock      fetch.log
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from common.config.paths import user_cache
from common.config.settings import Settings
from common.errors import JarError, SettingsError
from common.java.find_java import find_java
from common.java.ivy import Ivy, failure_lines
from common.java.jar_lock import LOCK, Jar, State, jar_sets, lock_text, locked
from common.machine.terminal import Arrival, arrivals, megabytes, say

__all__ = [
    "Jar",
    "State",
    "bundle_sets",
    "cache_dir",
    "export",
    "fetch",
    "jar_path",
    "jar_sets",
    "locked",
    "require",
    "verify",
]


def cache_dir(settings: Settings) -> Path:
    """Where the jars lie: the setting ``jars.cache_dir``, else ``medallion/jars`` in the user's cache."""
    chosen = settings.jars.cache_dir
    return chosen.expanduser().resolve() if chosen else user_cache() / "jars"


def jar_path(settings: Settings, jar: Jar) -> Path:
    """Where a jar lies, or would."""
    return cache_dir(settings) / jar.set / jar.file_name


def verify(settings: Settings, *sets: str) -> list[tuple[Jar, State]]:
    """Each jar of these sets and its state in the cache; every byte is read."""
    return [(jar, jar.state_of(jar_path(settings, jar))) for jar in locked(*sets)]


def require(settings: Settings, *sets: str) -> tuple[Path, ...]:
    """Paths of all jars of these sets, every one verified; what is missing or altered is fetched first.

    With a whole cache this neither starts Java nor touches the network.

    Raises:
        JarError: A jar cannot be fetched, or what came is not what was locked.
        JavaError: Something must be fetched and there is no Java to do it with.
    """
    fetch(settings, *sets)
    return tuple(jar_path(settings, jar) for jar in locked(*sets))


def fetch(settings: Settings, *sets: str, source: Path | None = None) -> tuple[Jar, ...]:
    """Bring what is missing or altered into the cache, and tell on stderr; the jars that were brought.

    Safe while other processes do the same: one fetches, the others wait and find the work done.

    Args:
        settings: Where the cache and the mirror are.
        sets: Sets of jars; none: all.
        source: A bundle made by ``export``, instead of the network.

    Raises:
        JarError: As ``require``.
        JavaError: As ``require``; a bundle needs no Java.
    """
    if not _faults(settings, *sets):
        return ()
    console = Console(stderr=True)
    cache = cache_dir(settings)
    with _only_fetcher(cache, console):
        faults = _faults(settings, *sets)
        if not faults:  # whoever held the lock brought them
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
        say(console, f"{_counted(wanted)} fetched and verified")
    return tuple(wanted)


def bundle_sets(source: Path) -> tuple[str, ...]:
    """The sets of jars that a bundle has."""
    return tuple(name for name in jar_sets() if (source / name).is_dir())


def export(settings: Settings, target: Path, *sets: str) -> tuple[Path, ...]:
    """A bundle for a machine without network: copies of the jars and the lock; the copies' paths.

    Raises:
        JarError: A jar cannot be fetched, or the folder cannot be written.
    """
    jars = locked(*sets)
    paths = require(settings, *sets)
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


def _faults(settings: Settings, *sets: str) -> list[tuple[Jar, State]]:
    return [(jar, state) for jar, state in verify(settings, *sets) if state != "ok"]


@contextlib.contextmanager
def _only_fetcher(cache: Path, console: Console) -> Iterator[None]:
    """Hold the cache's lock; the kernel lets go of it if this process dies."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
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
        for left in cache.glob(".fetch-*"):  # of a fetch that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield


def _announce(
    console: Console, settings: Settings, faults: Sequence[tuple[Jar, State]], source: Path | None
) -> None:
    known = {jar.set for jar, _ in faults if (cache_dir(settings) / jar.set).is_dir()}
    for jar, state in faults:
        if jar.set in known:  # of a set that was never there, no jar is named
            say(
                console,
                f"{jar_path(settings, jar)} {_fault(jar, state, jar_path(settings, jar))}; fetching it again",
            )
    size = megabytes(sum(jar.size_bytes for jar, _ in faults))
    origin = f" from {source}" if source else ""
    say(console, f"fetching {_counted(faults)}, {size}, once, into {_short(cache_dir(settings))}{origin}")


def _fault(jar: Jar, state: State, path: Path) -> str:
    if state == "missing":
        return "is missing"
    size_bytes = path.stat().st_size
    if size_bytes < jar.size_bytes:
        return f"is cut short ({size_bytes} of {jar.size_bytes} bytes)"
    return "is altered (its sha256 is not the locked one)"


def _from_repository(settings: Settings, wanted: Sequence[Jar], scratch: Path, arrived: Arrival) -> None:
    own = settings.jars.ivy_settings
    if own is not None and not own.expanduser().is_file():
        raise SettingsError(f"jars.ivy_settings: {own}: no such file. Name an ivysettings.xml, or unset it.")
    log = cache_dir(settings) / "fetch.log"
    log.write_text("")
    downloader = Ivy(find_java(settings), own.expanduser().resolve() if own else None, log)
    left = list(wanted)
    for attempt in range(3):  # again, for as long as trying brings something
        before = len(left)
        for name in dict.fromkeys(jar.set for jar in left):  # sets hold other versions of the same jar
            folder = scratch / f"{name}-{attempt}"
            folder.mkdir()
            batch = {jar.coordinate: jar for jar in left if jar.set == name}
            for coordinate in downloader.retrieve(list(batch), folder):
                if coordinate in batch:  # a mirror's own settings may bring more
                    arrived(batch[coordinate].file_name, batch[coordinate].size_bytes)
            left = [jar for jar in left if jar.set != name or not _admit(settings, jar, folder)]
        if not left or len(left) == before:
            break
    if left:
        raise _not_fetched(settings, left, wanted, scratch)


def _admit(settings: Settings, jar: Jar, folder: Path) -> bool:
    """Move a jar from below a folder into the cache if it is the one that was locked."""
    for found in sorted(folder.rglob(jar.file_name)):
        if jar.state_of(found) == "ok":
            target = jar_path(settings, jar)
            target.parent.mkdir(exist_ok=True)
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
        if not _admit(settings, jar, scratch):
            raise JarError(f"{source / jar.set / jar.file_name} changed while it was read. Try again.")
        arrived(jar.file_name, jar.size_bytes)


def _not_fetched(settings: Settings, left: Sequence[Jar], wanted: Sequence[Jar], scratch: Path) -> JarError:
    cache = cache_dir(settings)
    names = ", ".join(jar.coordinate for jar in left[:5]) + (", …" if len(left) > 5 else "")  # noqa: PLR2004
    what = f"{len(left)} of {len(wanted)} jars could not be fetched into {_short(cache)}: {names}."
    other = [jar.coordinate for jar in left if any(scratch.rglob(jar.file_name))]
    if other:
        what += (
            f" {len(other)} came with another sha256 than locked and were refused: {', '.join(other[:5])}."
        )
    log = cache / "fetch.log"
    return JarError(
        f"{what} Check the network, or name your own mirror with the setting jars.ivy_settings, then: "
        "medallion jars fetch. Without a network: medallion jars export DIR on a machine that has one, then "
        "medallion jars fetch --from DIR here."
        + "".join(f"\n  {line}" for line in [f"From {log}:", *failure_lines(log)])
    )


def _counted(things: Sequence[object]) -> str:
    return "1 jar" if len(things) == 1 else f"{len(things)} jars"


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
