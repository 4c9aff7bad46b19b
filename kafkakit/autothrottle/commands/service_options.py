"""How the service runs: its ticks, its HTTP API and its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChoice:
    """The options of `run` that `once` does not have."""

    interval: Annotated[
        str,
        typer.Option(
            "--interval",
            envvar="AUTOTHROTTLE_INTERVAL",
            metavar="DURATION",
            help="Time between two ticks; a bare number is seconds.",
        ),
    ] = "15s"
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            "--api-listen",
            envvar="AUTOTHROTTLE_API_LISTEN",
            metavar="HOST:PORT",
            help="Address of the HTTP API; it is not encrypted. `none`: no API.",
        ),
    ] = "127.0.0.1:8080"
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="The bearer token of the API, for everything but reads from this host.",
            show_default=False,
        ),
    ] = None
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let any process of this host change overrides, as kafka-kit does.")
    ] = False
    remove_on_exit: Annotated[
        bool, typer.Option("--remove-on-exit", help="Remove the pacer's throttles at SIGTERM, while moves run, too.")
    ] = False
