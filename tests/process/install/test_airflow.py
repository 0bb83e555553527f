"""A DAG that Airflow runs for real, in an environment of its own, with commands in theirs.

The environment is installed by uv, once, in the user's cache; without uv or a package index the tests are
skipped. ``TESTS_AIRFLOW`` names the folder of another environment.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.delta.lease.local_leases import Leases
from common.delta.log import snapshot
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.quality.last_results import last_results
from tests.support.processes import EXAMPLE, ROOT, SMALL, example_on
from tests.support.servers.own_environment import installed

LOCK = Path(__file__).with_name("airflow.lock")
RECORDS = 300
_INSTALL_SECONDS, _RUN_SECONDS = 600, 500

pytestmark = pytest.mark.long


_ENDS = """
import json, sys
sys.path[:0] = [{root!r}, {folder!r}]
from orchestration.install.airflow import build_dag
from orchestration.install.airflow.operator import FreshnessOperator, MedallionOperator

dag = build_dag({pipeline!r})
ends = {{}}
for code in (0, 1, 2, 3, 4, 5, 130):
    task = MedallionOperator(task_id=f"t{{code}}", command=["sh", "-c", f"echo no-good >&2; exit {{code}}"])
    try:
        task.execute({{}})
        ends[code] = "success"
    except Exception as error:
        ends[code] = type(error).__name__
try:
    MedallionOperator(task_id="missing", command=["/no/such/medallion"]).execute({{}})
except Exception as error:
    ends["missing"] = type(error).__name__
for seconds in (5, 50, None):
    status = json.dumps({{"tables": [{{"table": "gold.t", "freshness": {{"waiting_seconds": seconds}}}}]}})
    command = ["sh", "-c", f"echo '{{status}}'"]
    task = FreshnessOperator(task_id=f"f{{seconds}}", limit_seconds=10, command=command)
    try:
        task.execute({{}})
        ends[f"fresh {{seconds}}"] = "success"
    except Exception as error:
        ends[f"fresh {{seconds}}"] = type(error).__name__
heavy = {{"pyspark", "delta", "deltalake", "confluent_kafka", "great_expectations", "duckdb", "sqlglot"}}
print(json.dumps({{
    "ends": ends,
    "heavy": sorted(heavy & {{name.partition(".")[0] for name in sys.modules}}),
    "tasks": {{task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks}},
    "outlets": [asset.name for asset in dag.get_task("backfill").outlets],
}}))
"""


_COMPARES = """
import json, logging, sys
sys.path.insert(0, {root!r})
from orchestration.install.airflow.operator import MedallionOperator

logging.basicConfig(level="INFO", stream=sys.stdout)
ends = {{}}
for name in ("same", "other"):
    task = MedallionOperator(
        task_id=name,
        words=["reconcile", "gold.latest", "--against", f"{folder}/{{name}}.parquet"],
        command=[{python!r}, "-m", "orchestration"],
        arguments=["-p", "{folder}/pipeline.py", "--set", "data_dir={folder}/data"],
        env={{"PYTHONPATH": {root!r}}},
    )
    try:
        task.execute({{}})
        ends[name] = "success"
    except Exception as error:
        ends[name] = f"{{type(error).__name__}}: {{error}}"
print(json.dumps(ends))
"""


@dataclass
class Airflow:
    """An Airflow of its own database, whose DAGs are in a folder; and the data that they write."""

    environment: Path
    home: Path
    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run an ``airflow`` command; the product's source is on its path, and no other package of it."""
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "PYTHONPATH": str(ROOT),
        }
        command = [str(self.environment / "bin" / "airflow"), *words]
        return subprocess.run(
            command, check=False, env=variables, capture_output=True, text=True, timeout=_RUN_SECONDS
        )

    def dag(self, topic: str, broker: str, *, broken: bool = False) -> Settings:
        """Write a DAG of the example on a topic; returns the settings that its commands have."""
        pipeline = example_on(self.folder, topic)
        if broken:
            pipeline.write_text(
                pipeline.read_text() + "\nfrom medallion import Quality, RowCount\n"
                'pipeline = replace(pipeline, quality=[Quality("silver.quakes", [RowCount(min=10**6)])])\n'
            )
        data = self.folder / "data"
        overrides = {"data_dir": str(data), "kafka.bootstrap_servers": broker}
        overrides |= dict(each.split("=", 1) for each in SMALL)
        (self.folder / "dags").mkdir(exist_ok=True)
        (self.folder / "dags" / "quakes.py").write_text(
            "# A DAG of Airflow: it reads only files with this word\n"
            "from datetime import timedelta\n"
            "from medallion import build_dag\n"
            f"dag = build_dag({str(pipeline)!r}, command=[{sys.executable!r}, '-m', 'orchestration'],\n"
            f"    overrides={overrides!r}, env={{'PYTHONPATH': {str(ROOT)!r}}},\n"
            "    freshness=timedelta(hours=1), default_args={'retries': 0})\n"
        )
        return load_settings(overrides=[f"{name}={value}" for name, value in overrides.items()])

    def states(self) -> dict[str, str]:
        """The state of each task of the newest run, from Airflow's database."""
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            newest = "select run_id from dag_run order by id desc limit 1"
            rows = database.execute(f"select task_id, state from task_instance where run_id = ({newest})")
            return dict(rows.fetchall())


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    home = tmp_path_factory.mktemp("airflow")
    found = Airflow(installed("airflow", LOCK), home, tmp_path_factory.mktemp("dags"))
    done = found.run("db", "migrate")
    assert done.returncode == 0, done.stderr[-1000:]
    return found


def test_a_run_fills_judges_and_maintains_the_tables(
    airflow: Airflow, broker: str, new_topic: Callable[[], str], send: Callable[..., None]
) -> None:
    topic = new_topic()
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    send(topic, list(islice(sample(7), RECORDS)))
    settings = airflow.dag(topic, broker)
    done = airflow.run("dags", "test", "medallion_earthquakes")
    output = done.stdout + done.stderr
    assert airflow.states() == dict.fromkeys(("backfill", "quality", "freshness", "maintain"), "success"), (
        output[-3000:]
    )
    layout = Layout.of(load_pipeline(airflow.folder / "feed.py"), settings)
    bronze = snapshot(layout.table_path("bronze.quakes"))
    assert bronze is not None
    assert bronze.rows == RECORDS
    assert {result.table for result in last_results(layout, load_pipeline(EXAMPLE).quality)} == {
        "silver.quakes",
        "gold.quakes_latest",
    }


def test_a_running_job_skips_the_backfill_and_a_failed_suite_fails_the_run(
    airflow: Airflow, broker: str, new_topic: Callable[[], str]
) -> None:
    settings = airflow.dag(new_topic(), broker, broken=True)
    layout = Layout.of(load_pipeline(airflow.folder / "feed.py"), settings)
    with Leases(layout.leases, ["bronze.quakes"], "up"):
        done = airflow.run("dags", "test", "medallion_earthquakes")
    output = done.stdout + done.stderr
    expected = {
        "backfill": "skipped",
        "quality": "failed",
        "freshness": "success",
        "maintain": "upstream_failed",
    }
    assert airflow.states() == expected, output[-3000:]
    assert "another job writes the tables" in output
    assert "ended with exit code 3" in output


def test_exit_codes_decide_how_a_task_ends_and_nothing_heavy_is_imported(airflow: Airflow) -> None:
    code = _ENDS.format(root=str(ROOT), folder=str(airflow.folder), pipeline=str(EXAMPLE))
    variables = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "AIRFLOW_HOME": str(airflow.home)}
    done = subprocess.run(
        [str(airflow.environment / "bin" / "python"), "-c", code],
        check=False,
        env=variables,
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ends"] == {
        "0": "success",
        "1": "AirflowException",
        "2": "AirflowFailException",
        "3": "AirflowFailException",
        "4": "AirflowSkipException",
        "5": "AirflowFailException",
        "130": "AirflowException",
        "missing": "AirflowFailException",
        "fresh 5": "success",
        "fresh 50": "AirflowException",
        "fresh None": "AirflowException",
    }
    assert found["heavy"] == []
    assert found["tasks"] == {"backfill": ["quality"], "quality": ["maintain"], "maintain": []}
    tables = [table.table for table in load_pipeline(EXAMPLE).tables]
    assert found["outlets"] == [f"earthquakes.{table}" for table in tables]


def test_a_task_compares_a_table_with_its_source(airflow: Airflow, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.py"
    file.write_text(
        "from common.declare import Pipeline, Topic, Upsert\n"
        "from tests.support.shops import plain_silver\n"
        'silver = plain_silver("orders", "id string, at timestamp")\n'
        'gold = Upsert("latest", "silver.orders", key=["id"], newest_by=["at"], columns=["id", "at"])\n'
        'pipeline = Pipeline("shop", bronze=[Topic("orders")], silver=[silver], gold=[gold])\n'
    )
    settings = load_settings(overrides=[f"data_dir={tmp_path / 'data'}"])
    table = Layout.of(load_pipeline(file), settings).table_path("gold.latest")
    rows = pa.table({"id": ["a", "b"]})
    write_deltalake(table, rows)
    pq.write_table(rows, tmp_path / "same.parquet")
    pq.write_table(rows.slice(1), tmp_path / "other.parquet")
    code = _COMPARES.format(root=str(ROOT), folder=str(tmp_path), python=sys.executable)
    done = subprocess.run(
        [str(airflow.environment / "bin" / "python"), "-c", code],
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "AIRFLOW_HOME": str(airflow.home)},
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ends = json.loads(done.stdout.splitlines()[-1])
    assert ends["same"] == "success"
    assert ends["other"].startswith(
        "AirflowException: medallion other ended with exit code 1: error: gold.latest:"
    )
    assert "id=a   extra" in done.stdout  # the keys are in the task's log
