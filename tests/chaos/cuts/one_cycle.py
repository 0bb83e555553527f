"""One cycle of the three jobs, in a process of its own.

``python -m tests.chaos.cuts.one_cycle FOLDER BROKER TOPIC``
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from common.config.settings import load_settings
from common.spark.session import build_session
from tests.chaos.cuts import shop
from tests.conftest import SESSION
from tests.support.processes import DEADLINE_SECONDS

ROOT = Path(__file__).parents[3]


def main(folder: str, broker: str, topic: str) -> None:
    """Run the cycle."""
    outside = Path(folder).with_name(f"{Path(folder).name}.session")
    outside.mkdir(exist_ok=True)
    (outside / "medallion.yaml").touch()
    flushed = [each for each in SESSION if not each.startswith("spark.fsync")]
    spark = build_session(
        load_settings(file=outside / "medallion.yaml", overrides=flushed),
        "tests",
        outside / "log",
        compiled="quickly",
    )
    shop.engine(spark, Path(folder), broker, topic).run("bronze", "silver", "gold")
    spark.stop()


def run(
    folder: Path, broker: str, topic: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the cycle in a process of its own; returns the ended process."""
    return subprocess.run(
        [sys.executable, "-m", "tests.chaos.cuts.one_cycle", str(folder), broker, topic],
        env={**environment, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
