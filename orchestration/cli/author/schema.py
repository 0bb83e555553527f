"""``medallion schema``: JSON Schemas for editors, of the settings file and of files of cases."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

import typer

from orchestration.cli.options import command_named

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = ["string", "number", "boolean"]


@command_named("schema")
def schema(
    what: Annotated[
        Literal["settings", "cases"],
        typer.Argument(help="settings: of medallion.yaml; cases: of files *.cases.yaml."),
    ],
) -> None:
    """Print the JSON Schema of a YAML file, by which an editor completes names, explains and marks mistakes.

    For the YAML language server: medallion schema settings > .medallion.schema.json, and as the first line of
    medallion.yaml: # yaml-language-server: $schema=.medallion.schema.json
    """
    found = settings_schema() if what == "settings" else cases_schema()
    sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def settings_schema() -> dict[str, Any]:
    """The schema of a settings file."""
    from common.config.settings import Settings

    found = Settings.model_json_schema()
    for part in (found, *found["$defs"].values()):
        part.pop("title", None)
        for name, setting in part.get("properties", {}).items():
            setting.pop("title", None)
            _widen(name, setting)
    return {"$schema": _DRAFT, "title": "Settings of Medallion Lakehouse", **found}


def _widen(name: str, setting: dict[str, Any]) -> None:
    """Accept what YAML reads as a number where the settings take a text."""
    if setting.get("type") == "object" and setting.get("additionalProperties") == {"type": "string"}:
        setting["additionalProperties"] = {"type": _PLAIN}
    elif name in {"data_mode", "address", "over", "under"}:
        for each in (setting, *setting.get("anyOf", ())):
            if each.get("type") == "string":
                each["type"] = ["string", "number"]
    if "default" not in setting or setting["default"] is None:
        return
    # An empty key is a setting that is not set.
    if "type" in setting and isinstance(setting["type"], str):
        setting["type"] = [setting["type"], "null"]


def cases_schema() -> dict[str, Any]:
    """The schema of a file of cases."""
    from orchestration.author.cases.read import build

    meanings = {
        "pipeline": "The pipeline file, relative to this file; unset: the pipeline of the command.",
        "shared": "Anything with anchors that the cases use.",
        "cases": "The cases, each of which is run by itself.",
        "name": "What the case proves.",
        "topic": "The topic of the record; of a case: of records that name none.",
        "timestamp": "Kafka's timestamp; of a case: of records that name none.",
        "messages": "The records in order: a mapping (JSON), a text, or a mapping of value, key, headers, …; "
        "cut begins another micro-batch.",
        "lookups": "Rows of the tables that rules look up, by the lookup's name.",
        "expect": "The expected rows by table, as a table of text; none: no row. Only columns that are named "
        "are compared.",
    }

    def properties(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: {"description": meanings[name]} for name in names}

    tables = {"type": "object", "additionalProperties": {"type": ["string", "array", "null"]}}
    case = properties(build.CASE_KEYS)
    case["name"] |= {"type": "string"}
    case["messages"] |= {"type": "array"}
    case["expect"] |= tables
    case["lookups"] |= tables
    file = properties(build.FILE_KEYS)
    file["cases"] |= {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "messages", "expect"],
            "properties": case,
        },
    }
    return {
        "$schema": _DRAFT,
        "title": "Cases of a pipeline's own tests",
        "type": "object",
        "additionalProperties": False,
        "required": ["cases"],
        "properties": file,
    }
