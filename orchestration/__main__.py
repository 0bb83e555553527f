"""``python -m orchestration``: the same as ``medallion``."""

from orchestration.cli import main

main()
