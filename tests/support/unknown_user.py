"""Runs a program as in a container: by a user id without an entry in /etc/passwd, and without a home folder.

Namespaces of Linux do it: the files of the tests' user are those of the unknown one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

USER = 12345
_WITHOUT_HOME = ("env", "-u", "HOME", "-u", "USER", "-u", "LOGNAME")
_AS_USER = ("unshare", "--user", f"--map-user={USER}", f"--map-group={USER}")
_MOUNTED = """
set -e
mount --bind "$1" "$1"
mount --bind "$2" "$2"
mount -o remount,bind,noexec "$1"
shift 2
exec "$@"
"""


def unknown_user() -> tuple[str, ...]:
    """The program, with its arguments, that starts another one as the unknown user."""
    return _usable((*_WITHOUT_HOME, *_AS_USER))


def unknown_user_without_exec(folder: Path, data: Path) -> tuple[str, ...]:
    """As ``unknown_user``, where nothing can be executed in a folder, except in one of its folders."""
    as_root = ("unshare", "--user", "--map-root-user", "--mount")
    mounted = (*as_root, "sh", "-c", _MOUNTED, "sh", str(folder), str(data))
    return _usable((*mounted, *unknown_user()))


def _usable(within: tuple[str, ...]) -> tuple[str, ...]:
    done = subprocess.run([*within, "true"], capture_output=True, check=False, text=True)
    if done.returncode:
        pytest.skip(f"this user may not make namespaces: {done.stderr.strip()}")
    return within
