"""The JSON Schemas accept what the engine accepts, and mark what it refuses."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from common.config.settings import load_settings, setting_names
from common.errors import SettingsError
from orchestration.author.cases.read.load import load_files
from tests.support import in_process

ROOT = Path(__file__).parents[4]
FILES_OF_CASES = sorted(
    [*(ROOT / "examples").rglob("*.cases.yaml"), *(ROOT / "tests" / "spec").rglob("*.cases.yaml")]
)


def schema(what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(in_process.run("schema", what).stdout)
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def mistakes(what: str, text: str) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema(what))
    return [error.message for error in validator.iter_errors(yaml.safe_load(text))]


def test_the_schema_of_settings_has_each_setting_with_its_meaning() -> None:
    found = schema("settings")

    def names(part: dict[str, Any], prefix: str) -> list[str]:
        listed = []
        for name, setting in part["properties"].items():
            listed.append(prefix + name)
            if "$ref" in setting and "properties" in (
                inner := found["$defs"][setting["$ref"].rpartition("/")[2]]
            ):
                listed += names(inner, f"{prefix}{name}.")
            else:
                assert setting.get("description") or name == "trigger", name
        return listed

    assert names(found, "") == [*setting_names()]


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("spark:\n  master: local[2]\n  conf: {spark.a: 5, spark.b: true, spark.c: x}\n", True),
        ("data_mode: 0750\nhttp: {address: 8484}\n", True),
        ("alerts:\n  channels: {a: env:X}\n  rules: {late: {when: lag, over: 5, for: 1 minute}}\n", True),
        ("kafka:\n  options: {a: b}\npipeline: x.py\n", True),
        ("spark:\n  masterr: x\n", False),
        ("spark:\n  shuffle_partitions: many\n", False),
        ("bronze: 5\n", False),
        ("quality: {engine: duck}\n", False),
        ("spark: {state_store: rocks}\n", False),
    ],
)
def test_the_schema_of_settings_says_what_the_engine_says(
    text: str,
    is_right: bool,  # noqa: FBT001  # pytest passes it by name
    tmp_path: Path,
) -> None:
    assert (mistakes("settings", text) == []) is is_right
    file = tmp_path / "medallion.yaml"
    file.write_text(text)
    with nullcontext() if is_right else pytest.raises(SettingsError):
        load_settings(file=file)


@pytest.mark.parametrize("file", FILES_OF_CASES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_schema_of_cases_accepts_all_files_of_cases(file: Path) -> None:
    assert load_files([file]).problems == ()
    assert mistakes("cases", file.read_text(encoding="utf-8")) == []


def test_the_schema_of_cases_marks_mistakes() -> None:
    text = "cases:\n- name: x\n  mesages: []\n  expect: {gold.x: none}\n"
    assert len(mistakes("cases", text)) == 2  # an unknown name, and messages is missing
