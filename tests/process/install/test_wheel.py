"""The wheel in an environment of its own, beside a user's project with packages of the engine's names."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from common.config.settings import load_settings
from common.java.compile_sources import reader_jar
from common.java.find_java import find_java
from common.java.jar_cache import require
from distribution.one_package import FOLDERS
from tests.support.processes import DEADLINE_SECONDS, SMALL, await_that, descendants
from tests.support.servers.spark_cluster import spark_cluster
from tests.support.wheel import Environment, build, copy_of_the_sources, installed, run, unpacked

_SET = tuple(word for text in SMALL for word in ("--set", text))
_OWN = {
    "common/__init__.py": "TOPIC = 'orders'\n",
    "gold/__init__.py": "BY = ['currency']\n",
    "silver.py": "RULE = 'amount > 0'\n",
    "orchestration/__init__.py": "",
    "orchestration/__main__.py": "raise SystemExit('the program of the user')\n",
    "orders.jsonl": (
        '{"id": "o1", "currency": "eur", "amount": 12.5, "at": "2026-01-05T10:00:00Z"}\n'
        '{"id": "o2", "currency": "usd", "amount": 80, "at": "2026-01-05T10:01:00Z"}\n'
        '{"id": "o3", "currency": "eur", "amount": -1, "at": "2026-01-05T10:02:00Z"}\n'
    ),
    "more.jsonl": '{"id": "o4", "currency": "eur", "amount": 7.5, "at": "2026-01-05T10:03:00Z"}\n',
    "medallion.yaml": "",
    "shop.py": """
from common import TOPIC
from gold import BY
from silver import RULE

from medallion import Aggregate, Json, Pipeline, Quality, Rule, Silver, Topic, Unique

pipeline = Pipeline(
    name="shop",
    bronze=[Topic(TOPIC)],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, currency string, amount decimal(12,2), at timestamp"),
            columns={"order_id": "id", "currency": "currency", "amount": "amount", "ordered_at": "at"},
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 day",
            rules=[Rule("amount_positive", RULE)],
        )
    ],
    gold=[Aggregate("revenue", reads="silver.orders", by=BY, measures={"revenue": "sum(amount)"})],
    quality=[Quality("silver.orders", [Unique(["order_id"])])],
)
""",
    "shop.cases.yaml": """
pipeline: shop.py
cases:
- name: an order without an amount is set aside
  messages:
  - {id: o1, currency: eur, amount: 12.5, at: "2026-01-05T10:00:00Z"}
  - {id: o2, currency: eur, amount: 0, at: "2026-01-05T10:01:00Z"}
  expect:
    silver.orders: |
      | order_id |
      | o1       |
""",
    "test_own.py": """
import common
import silver


def test_own_packages():
    assert (common.TOPIC, silver.RULE) == ("orders", "amount > 0")
""",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_of_the_sources(folder / "source")
    sdist = build("build_sdist", source, folder / "sdist")
    return build("build_wheel", unpacked(sdist, folder / "unpacked"), folder)


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Environment:
    """An environment with the wheel, what it needs without any extra, and pytest."""
    return installed(wheel, wheel.parent / "environment", more=["pytest"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The user's project."""
    for name, text in _OWN.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "project"


@pytest.mark.ci
def test_beside_packages_of_the_same_names(environment: Environment, project: Path) -> None:
    """One name is taken; commands, the plugin of pytest and a user's own packages work side by side."""
    assert json.loads(environment.run("python", "-c", _INSTALLED, at=project)) == ["medallion"]
    where = environment.run("python", "-c", "import common, medallion; print(common.__file__)", at=project)
    assert where.strip() == str(project / "common" / "__init__.py")
    assert environment.run("medallion", "check", "-p", "shop.py", at=project)
    environment.run("medallion", "init", "--from-file", "orders.jsonl", at=project)
    first = project.parent / "first"
    first.mkdir()
    environment.run("medallion", "new", "first", "--example", "files", at=first)
    assert environment.run("medallion", "check", at=first)
    assert (first / "incoming" / "january.csv").is_file()
    assert "\nfrom medallion import " in (project / "pipeline.py").read_text()
    tests = environment.run("python", "-m", "pytest", "-q", "-k", "test_own_packages", at=project)
    assert "1 passed, 1 deselected" in tests  # the other one is the case, which needs Spark
    error = environment.refused("medallion", "page", "-p", "shop.py", "--http", "127.0.0.1:0", at=project)
    line, code = error.splitlines()
    assert code.strip() == "MED-2002: medallion explain MED-2002"
    assert line.endswith('which are not installed: pip install "medallion-lakehouse[page]"')


_INSTALLED = """
import importlib.metadata, json
files = importlib.metadata.files("medallion-lakehouse")
tops = {file.parts[0] for file in files} - {"..", "__pycache__"}
print(json.dumps(sorted(top for top in tops if not top.endswith(".dist-info"))))
"""


def test_no_module_names_another_by_the_name_that_it_has_here(wheel: Path) -> None:
    """Neither in an import nor as a text of its own."""
    with zipfile.ZipFile(wheel) as archive:
        modules = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    assert {name for name, text in modules.items() if list(_imported(text))} == set()
    paths = (name.removeprefix("medallion/").removesuffix(".py") for name in modules)
    ours = {path.removesuffix("/__init__").replace("/", ".") for path in paths}
    # The names of the layers alone are words of every pipeline.
    ours -= {"common", "bronze", "silver", "gold", "__init__", "__main__"}
    named = {name: ours & set(_texts(source)) for name, source in modules.items()}
    # The doctor puts the package's name before it.
    doctor = "medallion/orchestration/install/machine/doctor.py"
    assert {name: texts for name, texts in named.items() if texts} == {doctor: {"orchestration"}}


@pytest.mark.long
def test_the_demo_in_an_empty_folder(environment: Environment, tmp_path: Path) -> None:
    """It runs the example that is in the wheel, without a page, which is an extra."""
    words = ("demo", "--seconds", "2", "--rate", "100", *_SET)
    done = run(environment.command("medallion", *words), tmp_path, environment.env)
    assert "balanced: every record is in exactly one place" in done.stdout
    assert f"export MEDALLION_PIPELINE={environment.folder}/" in done.stdout
    assert 'no page, whose packages are not installed: pip install "medallion-lakehouse[page]"' in done.stderr


@pytest.mark.long
def test_rows_and_a_pipelines_own_tests(environment: Environment, project: Path) -> None:
    """A backfill, then a process per layer, with what a run needs and no extra."""
    shop = ("-p", "shop.py", *_SET)
    environment.run("medallion", "produce", "--from-file", "orders.jsonl", *shop, at=project)
    environment.run("medallion", "backfill", *shop, at=project)
    assert revenue(environment, project) == {"eur": "12.50", "usd": "80.00"}
    suites = run(environment.command("medallion", "quality", "run", *shop), project, environment.env)
    assert (
        'no Data Docs, whose library is not installed: pip install "medallion-lakehouse[quality]"'
        in suites.stderr
    )
    jobs = subprocess.Popen(
        environment.command("medallion", "up", "--separate", *shop), cwd=project, env=environment.env
    )
    try:
        environment.run("medallion", "produce", "--from-file", "more.jsonl", *shop, at=project)
        await_that(lambda: revenue(environment, project)["eur"] == "20.00", "the separate jobs have read it")
        jobs.send_signal(signal.SIGINT)
        assert jobs.wait(DEADLINE_SECONDS) == 0
    finally:
        if jobs.poll() is None:
            for pid in reversed(descendants(jobs.pid)):
                os.kill(pid, signal.SIGKILL)
            jobs.kill()
    assert "2 passed" in environment.run("python", "-m", "pytest", "-q", at=project)


@pytest.mark.long
def test_spark_submit_on_a_cluster(environment: Environment, project: Path, tmp_path: Path) -> None:
    """The folder of the job, which has the user's packages, is the first on the driver's path."""
    settings = load_settings(file=project / "medallion.yaml")
    jars = ",".join(map(str, (*require(settings, "spark"), reader_jar(settings))))
    (project / "job.py").write_text(
        "import common\nfrom medallion import main\n\nprint(common.TOPIC)\nmain()\n"
    )
    environment.run("medallion", "produce", "--from-file", "orders.jsonl", "-p", "shop.py", at=project)
    home = Path(pyspark.__file__).parent
    given = environment.env | {
        "JAVA_HOME": str(find_java(settings).home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(environment.folder / "bin" / "python"),
    }
    with spark_cluster(tmp_path / "cluster") as cluster:
        submit = [str(home / "bin" / "spark-submit"), "--master", cluster.master, "--jars", jars]
        words = ["--driver-memory", "1g", "job.py", "backfill", "-p", "shop.py"]
        settings_of_the_job = [word for text in cluster.overrides[1:] for word in ("--set", text)]
        done = run([*submit, *words, *settings_of_the_job], project, given)
        assert f"on {cluster.master}" in done.stdout  # spark-submit merges both
    assert revenue(environment, project) == {"eur": "12.50", "usd": "80.00"}


def revenue(environment: Environment, project: Path) -> dict[str, str]:
    """The rows of the gold table."""
    sql = "select currency, cast(revenue as varchar) as revenue from gold.revenue"
    found = environment.run("medallion", "query", "-p", "shop.py", "--json", sql, at=project)
    return {row["currency"]: row["revenue"] for row in json.loads(found)}


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        yield from (name for name in names if name.partition(".")[0] in FOLDERS)


def _texts(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
