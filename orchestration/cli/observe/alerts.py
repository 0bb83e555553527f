"""``medallion alerts list`` and ``test``: what is raised and watched, and whether the channels work."""

from __future__ import annotations

from typing import Annotated

import typer

from common.errors import UsageError, nearest
from common.machine.console import out, page
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption

app = typer.Typer(
    name="alerts", help="What wakes people: list it, and test its channels.", no_args_is_help=True
)


@app.command("list")
def ls(ready: Context, *, as_json: JsonOption = False) -> None:
    """List the rules, the alerts that are raised, and the channels.

    Shows what the process that watches has seen; it looks at nothing itself.
    """
    from orchestration.access.history.alert_state import read_alerts
    from orchestration.cli.observe.alerts_output import alerts_document, alerts_lines, rules_table
    from orchestration.observe.alerts.scope import blind_rules

    given, seen = ready.settings.alerts, read_alerts(ready.layout.alerts)
    if as_json:
        print_document(alerts_document(given, seen))
        return
    if not given.active_rules:
        out.print("No alert is configured: the settings have neither alerts.channels nor alerts.rules.")
        return
    page().print(rules_table(given, seen))
    for line in (*blind_rules(given.active_rules, ready.pipeline), *alerts_lines(given, seen)):
        page().print(line, markup=False, highlight=False, soft_wrap=True)


@app.command("test")
def send_test(
    ready: Context,
    channels: Annotated[
        list[str] | None, typer.Argument(help="Channels; without any, all of the settings.")
    ] = None,
) -> None:
    """Send a test message to each channel; ends with 1 if one is not delivered."""
    from orchestration.observe.alerts.channels import open_channels
    from orchestration.observe.alerts.messages import test_message

    known = ready.settings.alerts.channels
    if not known:
        raise UsageError(
            "no channel is configured: write alerts: {channels: {team: env:TEAM_HOOK}} into medallion.yaml."
        )
    for name in channels or ():
        if name not in known:
            raise UsageError(f"channel {name} is not in alerts.channels; {nearest(name, known)}")
    is_delivered = True
    for name, channel in open_channels({name: known[name] for name in channels or known}).items():
        fault = channel.send(test_message(ready.pipeline.name, name))
        is_delivered &= not fault
        out.print(f"{name}: {fault or 'delivered'}", markup=False, highlight=False)
    if not is_delivered:
        raise typer.Exit(1)
