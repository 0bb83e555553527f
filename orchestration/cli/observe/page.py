"""``medallion page`` shows a pipeline that other processes run, in a browser."""

from __future__ import annotations

import threading

from orchestration.access.declaration.context import Context
from orchestration.cli.options import HttpOption, command_named

_ADDRESS = "127.0.0.1:8484"


@command_named("page")
def page(ready: Context, http: HttpOption = None) -> None:
    """Serve the page, metrics and health of a pipeline from its tables, until Ctrl-C; starts no job.

    Without an address it listens at 127.0.0.1:8484. Needs no Spark. Jobs may be running or stopped, here or
    on other hosts that share the tables.
    """
    from orchestration.observe.page.serve import page_of

    ready.use_log_format()
    address = http or ready.settings.http.address or _ADDRESS
    with page_of(ready.pipeline, ready.settings, address):
        threading.Event().wait()
