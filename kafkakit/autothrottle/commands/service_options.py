"""How the service runs: its ticks, its HTTP API and its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkakit.cli.option_groups import option


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChoice:
    """The options of `run` that `once` does not have."""

    interval: str = option(
        "15s",
        "--interval",
        envvar="AUTOTHROTTLE_INTERVAL",
        metavar="DURATION",
        help="Time between two ticks; a bare number is seconds.",
    )
    listen: str = option(
        "127.0.0.1:8080",
        "--listen",
        "--api-listen",
        envvar="AUTOTHROTTLE_API_LISTEN",
        metavar="HOST:PORT",
        help="Address of the HTTP API; it is not encrypted. `none`: no API.",
    )
    token_file: Path | None = option(
        None,
        "--token-file",
        metavar="FILE",
        help="The bearer token of the API, for everything but reads from this host.",
    )
    no_token: bool = option(
        False, "--no-token", help="Let any process of this host change overrides, as kafka-kit does."
    )
    remove_on_exit: bool = option(
        False, "--remove-on-exit", help="Remove the pacer's throttles at SIGTERM, while moves run, too."
    )
