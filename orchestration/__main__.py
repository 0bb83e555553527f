"""``python -m orchestration``: the same as ``medallion``."""

from orchestration.cli.main import main

main()
