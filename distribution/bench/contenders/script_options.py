"""The options that a script is started with; the module imports nothing that the script would pay for."""

from __future__ import annotations

import argparse
from pathlib import Path


def script_options() -> argparse.Namespace:
    """``folder``, ``bootstrap``, ``topic``, ``running``, ``bronze_only`` and ``wide``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--running", action="store_true")
    parser.add_argument("--bronze-only", action="store_true")
    parser.add_argument("--wide", action="store_true")
    return parser.parse_args()
