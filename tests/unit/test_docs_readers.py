"""The programs on the pages about readers run, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pytest
from deltalake import write_deltalake

ROOT = Path(__file__).parents[2]
ACCESS = ROOT / "docs" / "access"
ROWS = pa.table({"currency": ["USD", "EUR"], "orders": [3, 6]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a pipeline with one table per layer."""
    for layer, table in (("silver", "orders"), ("silver", "orders__late"), ("gold", "revenue_by_currency")):
        write_deltalake(tmp_path / "data" / "shop" / "tables" / layer / table, ROWS)
    return tmp_path


def programs(page: str) -> list[str]:
    """The blocks of Python of a page."""
    return re.findall(r"```python\n(.*?)```", (ACCESS / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def run(program: str, folder: Path) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_cell_of_the_page_on_notebooks_shows_the_rows(folder: Path) -> None:
    """A cell shows its last expression."""
    cells = programs("notebooks.md")
    assert len(cells) == 3
    for cell in cells:
        *lines, last = cell.rstrip().splitlines()
        shown = run("\n".join([*lines, f"print({last})"]), folder)
        assert "EUR" in shown
        assert "USD" in shown


def test_the_views_of_the_page_on_dashboards_read_the_newest_version(folder: Path) -> None:
    (program,) = programs("dashboards.md")
    run(program, folder)
    extension = next(Path(duckdb_extension_delta.__path__[0]).glob("extensions/*/delta.duckdb_extension"))
    gold = str(folder / "data" / "shop" / "tables" / "gold" / "revenue_by_currency")

    def read() -> list[tuple[str, int]]:
        with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as connection:
            connection.execute(f"LOAD '{extension}'")
            assert connection.execute("SELECT count(*) FROM silver.orders__late").fetchone() == (2,)
            return connection.execute("SELECT * FROM gold.revenue_by_currency ORDER BY 1").fetchall()

    assert read() == [("EUR", 6), ("USD", 3)]
    write_deltalake(gold, pa.table({"currency": ["EUR"], "orders": [7]}), mode="overwrite")
    assert read() == [("EUR", 7)]
    run(program, folder)  # once more, as after a new table
    assert read() == [("EUR", 7)]
