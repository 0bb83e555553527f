"""``medallion quality run``, ``status``, ``profile`` and ``docs`` over real tables, without a JVM."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.delta.table import ERASED
from orchestration.quality.docs_server import docs_server
from orchestration.quality.profiles.propose import common_pattern
from tests.support import in_process
from tests.support.in_process import Ended

ROOT = Path(__file__).parents[4]
# Great Expectations imports a module that Python has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

PIPELINE = """
from medallion import *

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[Silver(
        "orders", reads="bronze.orders",
        value=Json("id string, country string, amount double, at timestamp"),
        columns=["id", "country", "amount", "at"], key=["id"], event_time="at", watermark="1 day",
        rules=[Rule("known_country", "country <> 'xx'")],
    )],
    gold=[Upsert("latest", reads="silver.orders", key=["id"], newest_by=["at"])],
    quality=[
        Quality("silver.orders", [RowCount(1), NullShare("amount", severity="warn")]),
        Quality("gold.latest", [
            Unique(["id"]),
            InRange("amount", min=0),
            gx.expectations.ExpectColumnMaxToBeBetween(column="amount", max_value=10),
        ], gate="publish"),
    ],
)
"""


class Shop:
    """The pipeline file and its tables."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "shop.py"
        self.file.write_text(PIPELINE)
        self.tables = folder / "data" / "shop" / "tables"

    def write(self, table: str, *amounts: float | None) -> None:
        """Append rows with these amounts, a minute apart, the newest an hour old."""
        now = datetime.now(UTC) - timedelta(hours=1)
        rows = {
            "id": [f"AB-{n:04}" for n in range(len(amounts))],
            "country": [("de", "fr")[n % 2] for n in range(len(amounts))],
            "amount": pa.array(amounts, pa.float64()),
            "at": [now - timedelta(minutes=n) for n in range(len(amounts))],
            "_kafka_offset": list(range(len(amounts))),
        }
        write_deltalake(str(self.tables / table.replace(".", "/")), pa.table(rows), mode="append")

    def erase(self) -> None:
        """Mark silver as an erasure does."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        DeltaTable(str(self.tables / "silver/orders")).alter.set_table_properties(
            {ERASED: now}, raise_if_not_exists=False
        )

    def run(self, *words: str, more: Sequence[str] = ()) -> Ended:
        """Run ``medallion quality`` with these words and more settings."""
        settings = [f"data_dir={self.folder / 'data'}", *more]
        return in_process.run("quality", *words, "-p", str(self.file), settings=settings)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Two good tables."""
    shop = Shop(tmp_path)
    shop.write("silver.orders", 1, None, 3)
    shop.write("gold.latest", 1, 2, 3)
    return shop


def test_run_reports_a_warning_and_keeps_the_results(shop: Shop) -> None:
    """Exit code 0: only an error fails a run. No process of Java is needed."""
    ended = shop.run("run", "--no-docs")
    assert ended.code == 0, ended.stderr
    assert "[1/2] silver.orders at version 0: 2 expectations, by DuckDB" in ended.stderr
    lines = [" ".join(line.split()) for line in ended.stdout.splitlines()]
    assert "silver.orders, version 0, 3 rows: passed" in lines
    assert "! null_share amount never null 1 of 3 rows are null" in lines
    assert "✓ rule known_country country <> 'xx'" in lines
    assert "✓ column_max_to_be_between amount max at most 10 observed 3" in lines
    path = shop.tables / "quality" / "results"
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 6
    assert "AB-0001 null" in " ".join(shop.run("run", "--no-docs", "--examples", "1").stdout.split())
    query = in_process.run(
        *("query", "--csv", "select expectation, failing_rows from quality.results where severity = 'warn'"),
        *("-p", str(shop.file)),
        settings=[f"data_dir={shop.folder / 'data'}"],
    )
    assert sorted(query.stdout.split()[1:]) == ["null_share,1", "null_share,1", "rule,0", "rule,0"]


def test_a_data_file_that_is_gone_is_an_error_that_names_table_and_version(shop: Shop) -> None:
    path = shop.tables / "silver" / "orders"
    (file,) = path.glob("*.parquet")
    file.rename(path.with_suffix(".gone"))
    failed = shop.run("run", "silver.orders", "--no-docs")
    assert failed.code == 1
    assert failed.error.startswith("error: silver.orders cannot be read at version 0: ")
    assert failed.error.endswith("Data files that are gone are named by: medallion audit")


def test_a_version_whose_log_is_gone_is_no_start_of_a_slice(shop: Shop) -> None:
    shop.write("silver.orders", 4)
    path = shop.tables / "silver" / "orders"
    DeltaTable(str(path)).create_checkpoint()
    (path / "_delta_log" / f"{0:020}.json").unlink()
    failed = shop.run("run", "silver.orders", "--no-docs", "--since-version", "0")
    assert failed.code == 2
    assert failed.error.startswith(
        "error: --since-version 0: a version of silver.orders can no longer be read ("
    )
    assert failed.error.endswith("Choose a newer one.")


def test_a_failure_exits_3_with_rows_on_request_and_state_and_history(shop: Shop) -> None:
    """``run --examples`` and ``status --rows`` name the failing rows by key; the state has the failure."""
    assert shop.run("run", "gold.latest", "--no-docs").code == 0
    shop.write("gold.latest", 4, -5)
    failed = shop.run("run", "gold.latest", "--no-docs", "--json", "--examples", "5")
    assert failed.code == 3
    assert failed.error == "error: 2 expectations failed on gold.latest (version 1)."
    (suite,) = json.loads(failed.stdout)["suites"]
    assert (suite["table"], suite["version"], suite["is_met"], suite["engine"]) == (
        "gold.latest", 1, False, "duckdb",
    )  # fmt: skip
    rows = [{"id": "AB-0001", "amount": -5.0}]
    assert [one["rows"] for one in suite["examples"]] == [
        [{"id": "AB-0000", "rows": 2}, {"id": "AB-0001", "rows": 2}],
        rows,
    ]
    status = json.loads(shop.run("status", "gold.latest", "--json", "--rows").stdout)["suites"][0]
    assert {key: status[key] for key in ("state", "gate", "version", "published_version")} == {
        "state": "failed", "gate": "publish", "version": 1, "published_version": None,
    }  # fmt: skip
    assert [(run["version"], run["passed"], run["reason"]) for run in status["runs"]] == [
        (1, False, "command"),
        (0, True, "command"),
    ]
    assert status["failing_rows"][1]["rows"] == rows
    shown = shop.run("status", "gold.latest", "--rows").stdout
    assert "in_range" in shown
    assert "AB-0001" in shown
    assert "never run" in shop.run("status").stdout
    shop.erase()
    hidden = shop.run("status", "gold.latest", "--rows")
    assert "AB-0001" not in hidden.stdout
    assert "records were erased after this run" in hidden.stderr
    part = shop.run("run", "gold.latest", "--no-docs", "--since-version", "0")
    assert "gold.latest, version 1 since version 0, 2 rows: failed" in part.stdout
    assert shop.run("run", "--no-docs", "--slice", "24h").code == 3
    assert "write it like 24h" in shop.run("run", "--slice", "soon").error
    assert "name the table" in shop.run("run", "--since-version", "0").error
    assert "use only one" in shop.run("run", "--since-version", "0", "--slice", "1h").error


def test_rows_of_an_expectation_that_was_met_are_not_shown(shop: Shop) -> None:
    """Half of the texts may be others: they are no failing rows."""
    met = 'Unique(["id"]), Matches("country", "de", mostly=0.1),'
    shop.file.write_text(PIPELINE.replace('Unique(["id"]),', met))
    shop.write("gold.latest", 4, -5)
    assert shop.run("run", "gold.latest", "--no-docs").code == 3
    (status,) = json.loads(shop.run("status", "gold.latest", "--json", "--rows").stdout)["suites"]
    assert [one["expectation"] for one in status["failing_rows"]] == ["unique", "in_range"]


@pytest.mark.long
def test_an_expectation_without_a_short_form_starts_no_spark_where_duckdb_is_set(shop: Shop) -> None:
    """Pandas answers it; by default Spark does."""
    lengths = "gx.expectations.ExpectColumnValueLengthsToBeBetween(column='id', min_value=7, max_value={})"
    for most, code in ((7, 0), (6, 3)):
        other = lengths.format(most).replace("min_value=7", f"min_value={most}")
        shop.file.write_text(PIPELINE.replace('Unique(["id"]),', f'Unique(["id"]), {other},'))
        ended = shop.run("run", "gold.latest", "--no-docs", "--json", more=["quality.engine=duckdb"])
        assert ended.code == code, ended.stderr
        assert "Spark" not in ended.stderr
        found = {one["expectation"]: one for one in json.loads(ended.stdout)["suites"][0]["checked"]}
        of_library = found["expect_column_value_lengths_to_be_between"]
        assert (of_library["is_met"], of_library["failing_rows"]) == (code == 0, 0 if code == 0 else 3)


def test_data_docs_are_written_and_served_on_loopback(shop: Shop) -> None:
    """With a style sheet of the server's own, and for requests to loopback only."""
    ended = shop.run("run", "--json")
    assert ended.code == 0, ended.stderr
    index = Path(json.loads(ended.stdout)["data_docs"])
    assert shop.run("docs", "--no-serve").stdout.strip() == str(index)
    folder = shop.folder / "data" / "shop" / "quality"
    pages = [page.read_text() for page in (index.parent / "validations").rglob("*.html")]
    assert len(pages) == 2
    assert any("null share: never null (a failure is a warning)" in page for page in pages)
    with docs_server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        with urllib.request.urlopen(address) as found:  # our own server
            first = found.read().decode()
        assert first.count("<td class='passed'>passed</td>") == 2
        address += index.relative_to(folder).as_posix()
        with urllib.request.urlopen(address) as found:  # noqa: S310  # our own server
            assert b"@layer medallion" in found.read()
            assert "img-src 'self'" in found.headers["Content-Security-Policy"]
        foreign = urllib.request.Request(address, headers={"Host": "example.org"})  # noqa: S310
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(foreign)  # noqa: S310
        server.shutdown()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["docs"], "There are no Data Docs yet"),
        (["docs", "--no-serve"], "There are no Data Docs yet"),
        (["profile", "bronze.orders"], "bronze.orders is no silver or gold table"),
        (["run", "--since-version", "0", "--slice", "1h"], "use only one of them"),
        (["run", "--since-version", "0"], "name the table"),
        (["run", "--slice", "tomorrow"], "is no age"),
        (["status", "gold.orders"], "gold.orders has no quality suite"),
    ],
)
def test_what_makes_no_sense_is_refused(shop: Shop, words: list[str], why: str) -> None:
    ended = shop.run(*words)
    assert (ended.code, why in ended.error) == (2, True)


def test_a_profile_proposes_a_suite_that_the_table_meets(shop: Shop) -> None:
    """As code with reasons; the pipeline with it passes its check and its run."""
    shop.write("gold.latest", *range(100, 200))
    DeltaTable(str(shop.tables / "gold" / "latest")).delete("amount < 10")
    ended = shop.run("profile", "gold.latest")
    assert ended.code == 0, ended.stderr
    lines = [line.strip() for line in ended.stdout.splitlines()]
    assert 'Unique(["id"]),  # the key; no duplicate in 100 rows' in lines
    assert "RowCount(min=50),  # 100 rows now; half of them" in lines
    few = "2 values in 100 rows; a few rows may have a new one"
    assert f'InSet("country", ["de", "fr"], mostly=0.97),  # {few}' in lines
    assert r'Matches("id", r"^[A-Z]{2}\-[0-9]{4}$"),  # all of 100 different values' in lines
    assert any(line.startswith('InRange("amount", min=70, max=230, mostly=0.97') for line in lines)
    assert any(line.startswith('Freshness("at", "') for line in lines)
    page = shop.folder / "data" / "shop" / "quality" / "profiles" / "gold.latest.html"
    html = page.read_text()
    assert "100 rows, 4 columns" in html
    assert "http" not in html
    code = ended.stdout.replace("Quality(", "suite = Quality(", 1)
    whole = "from dataclasses import replace\npipeline = replace(pipeline, quality=[suite])\n"
    shop.file.write_text(f"{PIPELINE}\n{code}\n{whole}")
    proposed = shop.run("run", "--no-docs")
    assert proposed.code == 0, proposed.stdout + proposed.stderr
    assert "did you mean 'gold.latest'?" in shop.run("profile", "gold.latst").error


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        (["AB-12", "CD-99"], r"^[A-Z]{2}\-[0-9]{2}$"),
        (["a1", "bcd22"], "^[a-z]+[0-9]+$"),
        (["a", "B"], ""),
        ([], ""),
        (["x.y", "z..w"], r"^[a-z]\.+[a-z]$"),
        (["é1", "é2"], "^é[0-9]$"),
    ],
)
def test_a_pattern_is_proposed_where_all_values_have_one_shape(values: list[str], pattern: str) -> None:
    """Letters, digits, and other characters as they are."""
    assert common_pattern(values) == pattern


def test_check_imports_no_library_that_takes_long(shop: Shop) -> None:
    """However a suite is written."""
    program = (
        "import sys\nsys.argv = ['medallion', 'check', '-p', sys.argv[1]]\n"
        "from orchestration.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: print(end.code)\n"
        "print([m for m in ('great_expectations', 'duckdb', 'pyarrow', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(shop.file)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split("\n")[-3:-1] == ["0", "[]"]


def test_check_names_mistakes_in_suites_with_their_place(shop: Shop) -> None:
    """File and line of the expectation, the wrong name, and the nearest right one."""
    text = PIPELINE.replace(
        'InRange("amount"', 'References(["id"], "silver.order"), Meets("amont > rand()"), InRange("amuont"'
    )
    sums = 'SumsEqual("amount", "gold.latest", equals="amout"), NullShare("amount"'
    text = text.replace('NullShare("amount"', sums)
    shop.file.write_text(text)
    ended = in_process.run("check", "-p", str(shop.file), settings=[f"data_dir={shop.folder}"])
    assert ended.code == 2
    found = " ".join(ended.stdout.split() + ended.stderr.split())
    assert "column 'amuont' is no column of gold.latest; did you mean 'amount'?" in found
    assert "'silver.order' is no silver or gold table of the pipeline; did you mean 'silver.orders'?" in found
    assert "equals 'amout' is no column of gold.latest; did you mean 'amount'?" in found
    assert "has no 'amont'; did you mean 'amount'?" in found
    assert "condition calls rand(), whose value differs" in found
    assert "shop.py:" in found
