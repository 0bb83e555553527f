"""Other work on the machine: keeps a share of one core busy until it is ended.

python -m distribution.bench.measure.busy 0.5
"""

from __future__ import annotations

import sys
import time

_SLICE_SECONDS = 0.02


def main() -> None:
    """Work for the share of each slice, as far as the machine lets it."""
    share = float(sys.argv[1])
    while True:
        over, ends = time.process_time() + share * _SLICE_SECONDS, time.monotonic() + _SLICE_SECONDS
        while time.process_time() < over:
            pass
        time.sleep(max(0.0, ends - time.monotonic()))


if __name__ == "__main__":
    main()
