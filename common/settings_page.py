"""``docs/settings.md``: every setting, its default and its meaning, from the settings themselves."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from common.settings import Settings


def reference() -> str:
    """Every setting with its default and meaning, as the Markdown of ``docs/settings.md``."""
    lines = [
        "# Settings",
        "",
        "Defaults < `medallion.yaml` < environment < flags. A key that does not exist is an error.",
        "`bronze.trigger` is `bronze: {trigger: …}` in the file, `MEDALLION_BRONZE__TRIGGER` in the",
        "environment, and `--set bronze.trigger='5 seconds'` on the command line.",
        "",
        "Written by `python -m common.settings_page > docs/settings.md`; a test compares.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    return "\n".join([*lines, *_reference_rows(Settings)]) + "\n"


def _reference_rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _reference_rows(kind, f"{prefix}{name}.")
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "" if default is None else f"`{default if default != '' else 'asap'}`"
        yield f"| `{prefix}{name}` | {shown} | {field.description or ''} |"


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201  # a generator of documentation prints it
