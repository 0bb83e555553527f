"""A schema registry's answers, for whatever is no row: commands, and the ids of schemas that are sent.

Queries look up writers' schemas in the JVM. A registry is an http(s) address of Confluent's interface.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from common.errors import RegistryError

NO_SUBJECT, NO_VERSION, NO_SCHEMA = 40401, 40402, 40403
"""The codes by which a registry says that it has no such thing; a 404 alone may be a proxy's."""

_SECONDS = 5.0
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Refused(Exception):  # noqa: N818  # an answer, which its caller explains
    """The registry has answered with an error of its own.

    Attributes:
        code: The registry's own code, such as 40403; for an incompatible schema 409.
    """

    def __init__(self, status: int, code: int, text: str) -> None:
        self.status, self.code, self.text = status, code, text
        super().__init__(f"{code}: {text}")


def is_address(place: str) -> bool:
    """Whether a registry is a server, and no folder of files."""
    return place.startswith(("http://", "https://"))


@dataclass(frozen=True)
class RegistryServer:
    """A registry."""

    place: str  # its address
    login: str | None = None  # ``user:password``, or ``Bearer`` and a token; None without one

    def schema(self, schema_id: int) -> Mapping[str, Any]:
        """The answer about a schema; raises as ``ask``."""
        return self.ask(f"/schemas/ids/{schema_id}")

    def version(self, subject: str, number: int, form: str = "") -> Mapping[str, Any]:
        """The answer about a version of a subject, such as in the form ``serialized``; raises as ``ask``."""
        query = f"?format={form}" if form else ""
        return self.ask(f"/subjects/{quote(subject, safe='')}/versions/{number}{query}")

    def subject(self, name: str, schema: Mapping[str, Any], *, register: bool = False) -> Mapping[str, Any]:
        """The id and version of a schema of a subject, which is registered if told to; raises as ``ask``."""
        return self.ask(f"/subjects/{quote(name, safe='')}{'/versions' if register else ''}", schema)

    def ask(self, path: str, content: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """The answer to a request; with content it is sent.

        Raises:
            Refused: The registry refuses it.
            RegistryError: The registry does not answer, or with something else.
        """
        address = f"{self.place.rstrip('/')}{path}"
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(address, data=data)  # noqa: S310  # http(s), by is_address
        request.add_header("Accept", f"{_MEDIA_TYPE}, application/json")
        if data is not None:
            request.add_header("Content-Type", _MEDIA_TYPE)
        if self.login is not None:
            basic = f"Basic {base64.b64encode(self.login.encode()).decode()}"
            login = self.login if self.login.startswith("Bearer ") else basic
            request.add_unredirected_header("Authorization", login)  # another server is not to have it
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # as above
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                refused = _refused(error)
            if refused is not None:
                raise refused from None
            raise RegistryError(
                f"The schema registry at {self.place} answers with status {error.code}."
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._no_schema() from error
        except ValueError:  # its text may have the login, of a header that cannot be sent
            raise self._no_schema() from None
        if not isinstance(found, dict):
            raise self._no_schema()
        return found

    def _no_schema(self) -> RegistryError:
        return RegistryError(f"The schema registry at {self.place} does not answer with a schema.")


def _refused(answer: urllib.error.HTTPError) -> Refused | None:
    """The registry's own error; None if the answer is not the registry's."""
    try:
        found = json.load(answer)
        return Refused(answer.code, int(found["error_code"]), str(found.get("message", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
