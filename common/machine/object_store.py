"""How this process reaches an S3 store: one access, for pyarrow and for delta-rs.

Spark's S3A has its own settings; ``common.config.object_store`` derives both from them. A process uses one
store. Without an access, the libraries use the usual AWS environment variables by themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from common.machine import extras

_S3 = ("s3://", "s3a://")
_RETRIES = timedelta(seconds=20)
"""How long a client repeats a request that the store does not answer."""

_MOST_RETRIES, _LONGEST_PAUSE = 1_000, timedelta(seconds=2)
"""So many that the time ends the retries: the clients' own number is used up within two seconds."""

_ARROW_ATTEMPTS = 9
"""pyarrow counts attempts, and doubles its pause from 50 ms: about as long in all."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_REFUSALS = (
    # The message of pyarrow, which names the operation.
    re.compile(r"AWS Error (?P<name>\w+) during \w+ operation: (?P<why>[^\n;]*)"),
    # The message of delta-rs, with one line per cause, the innermost last.
    re.compile(r"(?P<name>Generic S3 error)\s.*↳\s*(?P<why>[^\n]+)", re.DOTALL),
)


def store_failure(error: Exception) -> str | None:
    """Why the object store refused a request or did not answer, in one line; ``None`` for other errors."""
    text = _ESCAPES.sub("", str(error))
    found = next((each for refusal in _REFUSALS if (each := refusal.search(text))), None)
    return None if found is None else f"{found['why'].strip().rstrip('.')} ({found['name']})"


@dataclass(frozen=True, slots=True)
class S3Access:
    """Address and credentials of an S3 store; what is ``None`` comes from the environment or its default."""

    endpoint: str | None = None  # URL of the server; ``None``: AWS
    region: str | None = None  # name of the region
    is_path_style: bool = False  # the bucket is a part of the path, not of the host name
    access_key: str | None = None  # id of the key
    secret_key: str | None = None  # the secret; not in the text of this object
    session_token: str | None = None  # token of temporary credentials; not in the text of this object

    def __repr__(self) -> str:
        return f"S3Access({self.endpoint or 'AWS'}, {self.region})"


_access = S3Access()


def use(access: S3Access) -> None:
    """Reach S3 stores by this access from now on, in this process."""
    global _access  # noqa: PLW0603  # the libraries' own state is per process too
    _access = access


def is_s3(path: str) -> bool:
    """Whether a path is a URI of an S3 store."""
    return path.startswith(_S3)


def storage_options(path: str) -> dict[str, str] | None:
    """The options by which delta-rs opens a table; ``None`` for a local path and for other stores."""
    if not is_s3(path) or _access == S3Access():
        return None
    found = {
        "aws_endpoint": _access.endpoint,
        "aws_allow_http": "true" if (_access.endpoint or "").startswith("http://") else None,
        "aws_virtual_hosted_style_request": "false" if _access.is_path_style else None,
        "aws_region": _access.region,
        "aws_access_key_id": _access.access_key,
        "aws_secret_access_key": _access.secret_key,
        "aws_session_token": _access.session_token,
    }
    found |= {"max_retries": str(_MOST_RETRIES), "retry_timeout": f"{_RETRIES.total_seconds():.0f}s"}
    found |= {"backoff_config.max_backoff": f"{_LONGEST_PAUSE.total_seconds():.0f}s"}
    return {name: value for name, value in found.items() if value is not None}


def file_system(uri: str) -> tuple[Any, str]:
    """Pyarrow's file system of a URI, and the path in it."""
    from pyarrow import fs  # its import takes a third of a second, which local paths do not need

    if not is_s3(uri) or _access == S3Access():
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
        return found
    given: dict[str, Any] = {
        "access_key": _access.access_key,
        "secret_key": _access.secret_key,
        "session_token": _access.session_token,
        "region": _access.region,
    }
    if _access.endpoint is not None:
        address = urlsplit(_access.endpoint)
        given |= {
            "endpoint_override": address.netloc,
            "scheme": address.scheme,
            "force_virtual_addressing": not _access.is_path_style,
        }
    given["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=_ARROW_ATTEMPTS)
    store = fs.S3FileSystem(**{name: value for name, value in given.items() if value is not None})
    return store, uri.partition("://")[2]


def conditional_store(uri: str) -> Any:
    """A client of an S3 store that puts an object only if a condition holds; keys are relative to the URI.

    Raises:
        MissingExtraError: The client is not installed.
    """
    extras.require("object-stores", "leases and checkpoints in an object store")
    from obstore.store import S3Store

    bucket, _, prefix = uri.partition("://")[2].partition("/")
    given: dict[str, Any] = {
        "endpoint": _access.endpoint,
        "region": _access.region,
        "access_key_id": _access.access_key,
        "secret_access_key": _access.secret_key,
        "session_token": _access.session_token,
        "prefix": prefix or None,
    }
    if _access.endpoint is not None:
        given["virtual_hosted_style_request"] = not _access.is_path_style
    options: Any = {"allow_http": (_access.endpoint or "").startswith("http://"), "timeout": "30 seconds"}
    chosen = {name: value for name, value in given.items() if value is not None}
    pauses = {"init_backoff": timedelta(milliseconds=100), "max_backoff": _LONGEST_PAUSE, "base": 2}
    retries: Any = {"max_retries": _MOST_RETRIES, "retry_timeout": _RETRIES, "backoff": pauses}
    return S3Store(bucket, client_options=options, retry_config=retries, **chosen)


def put(uri: str, name: str, content: bytes) -> None:
    """Write an object of an S3 store by one request: it is there whole or not at all. pyarrow takes three.

    Raises:
        OSError: The store does not answer, or refuses.
    """
    store = conditional_store(uri)
    import obstore
    from obstore.exceptions import BaseError

    try:
        obstore.put(store, name, content, use_multipart=False)
    except BaseError as error:
        raise OSError(f"{uri}/{name} cannot be written: {error}") from error


def delete(uri: str, name: str) -> None:
    """Delete an object of an S3 store; nothing happens where there is none.

    Raises:
        OSError: The store does not answer, or refuses.
    """
    store = conditional_store(uri)
    import obstore
    from obstore.exceptions import BaseError

    try:
        obstore.delete(store, name)
    except BaseError as error:
        raise OSError(f"{uri}/{name} cannot be deleted: {error}") from error
