"""The module that a pipeline file imports, and what a wheel carries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import common.declare
import medallion
from common.machine.extras import EXTRAS, missing
from orchestration.access.declaration.load_file import load_pipeline

ROOT = Path(__file__).parents[2]


def test_medallion_has_the_names_of_common_declare() -> None:
    """The same objects under the same names, and ``case`` for a pipeline's own tests."""
    assert medallion.__all__ == sorted([*common.declare.__all__, "case"])
    for name in common.declare.__all__:
        assert getattr(medallion, name) is getattr(common.declare, name)


def test_a_console_completes_every_public_name() -> None:
    """Also before its first use."""
    code = "import medallion; print(*dir(medallion))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {*medallion.__all__, "MedallionOperator", "build_dag", "main"} <= set(done.stdout.split())


def test_python_m_medallion_runs_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "medallion", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"medallion (\d+\.\d+\.\d+|from source, not installed)\n", done.stdout)


def test_a_pipeline_file_of_the_name_medallion_is_no_clash(tmp_path: Path) -> None:
    """Neither itself nor a folder of that name beside it replaces the module."""
    (tmp_path / "medallion").mkdir()
    (tmp_path / "medallion" / "__init__.py").write_text("")
    file = tmp_path / "medallion.py"
    file.write_text(NAMED_MEDALLION)
    assert load_pipeline(file).name == "shop"


NAMED_MEDALLION = """
from medallion import Pipeline, Topic

pipeline = Pipeline(name="shop", bronze=[Topic("orders")])
"""


def test_nor_is_one_in_the_folder_that_comes_first_on_the_path(tmp_path: Path) -> None:
    """Where ``PYTHONPATH`` names it, or ``python -m`` is run there; its cases import the module too."""
    (tmp_path / "medallion.py").write_text(NAMED_MEDALLION)
    cases = "from medallion import case\n\none = case('one', messages=[], expect={'silver.none': 'none'})\n"
    (tmp_path / "medallion.cases.py").write_text(cases)
    done = subprocess.run(
        [sys.executable, "-m", "orchestration", "check", "-p", "medallion.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    # The pipeline and the cases were read: the case's mistakes are found.
    assert done.stderr == ""
    assert "silver.none" in done.stdout


def test_the_locked_set_is_that_of_the_wheel_with_all_extras() -> None:
    """The same packages, and each locked version is one that the wheel allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert extras.pop("all") == [f"medallion-lakehouse[{','.join(extras)}]"]
    assert set(extras) == set(EXTRAS)
    wanted = [Requirement(line) for line in chain(project["dependencies"], *extras.values())]
    assert {one.name for one in wanted} == named("requirements.in")
    run = locked("requirements.lock")
    assert [str(one) for one in wanted if run[one.name] not in one.specifier] == []


@pytest.mark.long
def test_each_extra_is_known_by_the_modules_that_it_installs() -> None:
    for extra, modules in EXTRAS.items():
        assert missing(extra) == (), extra
        tops = {module.partition(".")[0] for module in modules}
        assert {top for top in tops if not packages_distributions()[top]} == set()


def test_requirements_of_a_run_have_nothing_of_the_tests() -> None:
    """Each package is locked in the file beside its name."""
    run, dev = locked("requirements.lock"), locked("requirements-dev.lock")
    tests = {"pytest", "pytest-xdist", "hypothesis", "polars", "ruff", "mypy", "import-linter"}
    assert not tests & set(run)
    assert tests <= set(dev)
    assert named("requirements.in") <= set(run)
    assert named("requirements-dev.in") <= set(dev)
    shared = set(run) & set(dev)
    assert {name: run[name] for name in shared} == {name: dev[name] for name in shared}


def named(file: str) -> set[str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][\w-]*)", text, flags=re.MULTILINE))


def locked(file: str) -> dict[str, str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z][\w.-]*)==(\S+)", text, flags=re.MULTILINE))
