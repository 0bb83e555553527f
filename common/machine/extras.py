"""Packages that only some uses of the engine need: the extras of the distribution ``medallion-lakehouse``."""

from __future__ import annotations

from importlib.util import find_spec

from common.errors import MissingExtraError

EXTRAS = {
    "alerts": ("apprise",),
    "lineage": ("openlineage",),
    "object-stores": ("obstore",),
    "page": ("starlette", "uvicorn", "jinja2", "prometheus_client"),
    "protobuf": ("google.protobuf",),
    "quality": ("great_expectations",),
    "reconcile": ("duckdb_extension_postgres_scanner",),
    "state": ("google.protobuf",),
}
"""The modules of each extra, as they are imported."""


def missing(extra: str) -> tuple[str, ...]:
    """The modules of an extra that are not installed; nothing is imported."""
    return tuple(module for module in EXTRAS[extra] if not _is_installed(module))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it
        return False


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f'pip install "medallion-lakehouse[{extra}]"'


def require(extra: str, what: str) -> None:
    """Return where an extra is installed.

    Args:
        what: What needs it, in the plural: the beginning of the message.

    Raises:
        MissingExtraError: It is not; names its packages and the command that installs them.
    """
    if modules := missing(extra):
        raise MissingExtraError(
            f"{what} need {', '.join(modules)}, which {'are' if modules[1:] else 'is'} not installed: "
            f"{install(extra)}"
        )
