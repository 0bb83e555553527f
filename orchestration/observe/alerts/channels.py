"""Channels: where messages are sent, by apprise. An address may hold a secret and is never shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from common.config.references import resolve_secret
from common.errors import SettingsError
from common.machine import extras
from orchestration.observe.alerts.messages import Message

if TYPE_CHECKING:
    import apprise

_SECONDS = 20
"""Longest time of one message, whatever the receiver does."""

_CHARACTERS = 200


class Channel:
    """One channel.

    Args:
        address: An address of apprise, or a reference to one.

    Raises:
        MissingExtraError: apprise is not installed.
        SettingsError: The reference leads nowhere, or apprise does not know such an address.
    """

    def __init__(self, name: str, address: str) -> None:
        extras.require("alerts", "channels of alerts")
        import apprise  # its import takes a third of a second: only where alerts are configured

        self.name = name
        asset = apprise.AppriseAsset(
            app_id="medallion",
            app_desc="medallion",
            app_url="",
            async_mode=False,
            secure_logging=True,
            service_timeout=_SECONDS,
        )
        self._apprise: apprise.Apprise = apprise.Apprise(asset=asset)
        if not self._apprise.add(resolve_secret(address, f"alerts.channels.{name}")):
            raise SettingsError(
                f"alerts.channels.{name}: apprise knows no such address. Write it like json://host/path, "
                "mailtos://user:password@host?to=a@b.example or slack://token/token/token, or as a reference "
                "to it: env:NAME, file:/path. All kinds: https://appriseit.com/services/"
            )

    def send(self, message: Message) -> str:
        """Send a message; returns why it was not delivered, empty if it was.

        Returns within 20 seconds; apprise's own timeouts are shorter: four seconds each for the connection
        and for the answer (for mail fifteen), which ``cto`` and ``rto`` in the address change.
        """
        import apprise

        result = self._apprise.notify(
            body=message.body,
            title=message.title,
            notify_type=apprise.NotifyType(message.mood),
            body_format=apprise.NotifyFormat.TEXT,
        )
        if result:
            return ""
        logs = (entry for sent in result.results for one in sent.attempts for entry in one.logs)
        said = next((entry.message for entry in logs if entry.level != "DEBUG" and entry.message.strip()), "")
        return said.strip().splitlines()[0][:_CHARACTERS] if said else f"no answer within {_SECONDS} s"


def open_channels(addresses: Mapping[str, str]) -> dict[str, Channel]:
    """The channels of the settings, by name.

    Raises:
        SettingsError: A reference leads nowhere, or apprise does not know such an address.
    """
    return {name: Channel(name, address) for name, address in addresses.items()}
