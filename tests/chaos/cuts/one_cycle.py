"""One cycle of the three jobs, in a process of its own.

``python -m tests.chaos.cuts.one_cycle FOLDER BROKER TOPIC``
"""

from __future__ import annotations

import sys
from pathlib import Path

from common.config.settings import load_settings
from common.spark.session import build_session
from tests.chaos.cuts import shop
from tests.conftest import SESSION


def main(folder: str, broker: str, topic: str) -> None:
    """Run the cycle."""
    outside = Path(folder).with_name(f"{Path(folder).name}.session")
    outside.mkdir()
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


if __name__ == "__main__":
    main(*sys.argv[1:])
