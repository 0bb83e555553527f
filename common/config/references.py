"""Secrets by reference: ``env:NAME`` and ``file:/path`` in settings and Kafka options.

A reference is resolved only where the value is handed to a client or to Spark's JVM. Settings, tables,
checkpoints, messages and command lines have the reference.

``file:`` is a reference only under a name that may hold a secret or a certificate: other settings, such as
``spark.eventLog.dir``, have ``file:`` URIs of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from common.errors import SettingsError

HIDDEN_NAMES = (
    r"(?i)secret|password|passwd|passphrase|passcode|token(?!.*url)|jaas|credential|login|auth\.user\.info|"
    r"(access|account|api|shared|private|encryption)[._-]?key|ssl\.(keystore|truststore)\.(key|certificate)"
)
"""A regular expression, for Python and Java, of names of settings whose values are secrets."""

_SECRET = re.compile(HIDDEN_NAMES)


_LOGIN_IN_ADDRESS = re.compile(r"://[^/\s:@]+:[^/\s@]+@")

_NO_SECRET = re.compile(r"(?i)|true|false|[\d.]+|(?:[a-z_]\w*\.)+[A-Z]\w*")
"""Values that are no secrets whatever the name of their setting is: numbers, and names of classes."""


def holds_secret(name: str, value: str) -> bool:
    """Whether a setting holds a secret as it is, by its name or in an address, and no reference to one."""
    if is_reference(name, value):
        return False
    is_named = _SECRET.search(name) is not None and _NO_SECRET.fullmatch(value) is None
    return is_named or _LOGIN_IN_ADDRESS.search(value) is not None


def plain_secrets(tree: Mapping[str, object], place: str = "") -> Iterator[str]:
    """The places of settings that hold a secret as it is, such as ``kafka.options.sasl.jaas.config``.

    An address of a channel of alerts is one as a whole, and so is whatever logs in at a receiver of lineage.
    """
    for name, value in tree.items():
        here = f"{place}{name}"
        if isinstance(value, Mapping):
            yield from plain_secrets(value, f"{here}.")
        elif isinstance(value, str) and here != _LOGIN_REFERENCE:
            is_whole = place.startswith(_WHOLLY_SECRET) and name != "type"
            if holds_secret(name, value) or (is_whole and not value.startswith(("env:", "file:/"))):
                yield here


_LOGIN_REFERENCE = "silver.schema_registry_login"
"""A setting that is always a reference."""

_WHOLLY_SECRET = ("alerts.channels.", "lineage.openlineage.auth.")


def is_reference(name: str, value: str) -> bool:
    """Whether the value of a setting or option of this name is a reference to its value."""
    return value.startswith("env:") or (value.startswith("file:/") and _SECRET.search(name) is not None)


def resolve(values: Mapping[str, str], of: str) -> dict[str, str]:
    """The values, with each reference replaced by what it refers to.

    A file's last line break does not count, since editors add one.

    Args:
        values: Settings or options by name.
        of: What they are settings of, for error messages: ``kafka option``, ``spark.conf``.

    Raises:
        SettingsError: An environment variable is not set, or a file cannot be read; names the reference.
    """
    return {
        name: _referred(f"{of} {name}", value) if is_reference(name, value) else value
        for name, value in values.items()
    }


def resolve_secret(value: str, of: str) -> str:
    """The value of a setting that may always be a reference.

    Args:
        of: Its name, for error messages.

    Raises:
        SettingsError: An environment variable is not set, or a file cannot be read; names the reference.
    """
    return _referred(of, value) if value.startswith(("env:", "file:/")) else value


def registry_login(name: str | None) -> str | None:
    """The login of the schema registry that ``silver.schema_registry_login`` refers to; None without one.

    Raises:
        SettingsError: An environment variable is not set, a file cannot be read, or what it has cannot be
            sent; names the reference.
    """
    if name is None:
        return None
    reference = name if name.startswith("file:") else f"env:{name.removeprefix('env:')}"
    login = resolve({"schema_registry_login": reference}, "silver")["schema_registry_login"].strip()
    has_control = re.search(r"[\x00-\x1f\x7f]", login) is not None
    if has_control or (login.startswith("Bearer ") and not login.isascii()):
        what = "a line break or another control character" if has_control else "a letter that is not ASCII"
        raise SettingsError(
            f"{_LOGIN_REFERENCE} is {reference}: the login has {what} within it, so it cannot be sent. Write "
            "user:password, or Bearer and the token, in one line."
        )
    return login


def _referred(place: str, reference: str) -> str:
    kind, _, where = reference.partition(":")
    if kind == "env":
        value = os.environ.get(where)
        if value is None:
            raise SettingsError(
                f"{place} is {reference}: the environment variable {where} is not set. Set it for this "
                "process."
            )
        return value
    path = Path(unquote(urlsplit(reference).path))
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise SettingsError(
            f"{place} is {reference}: the file cannot be read ({reason}). Write the value there, readable by "
            "this user alone."
        ) from error
