"""How a metrics service is reached: options that every command with such a source has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option
from kafkakit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.ports.metrics import HostQueries, Patience, SampleQueries


class MetricsSource(StrEnum):
    """Where values come from."""

    BROKERS = "brokers"
    DATADOG = "datadog"
    PROMETHEUS = "prometheus"


def no_key(value: str | None) -> None:
    """Refuse a secret on the command line, where every user of the host can read it."""
    if value is not None:
        raise UsageError(
            "keys are not taken from the command line, which every user of the host can read",
            hint="use --api-key-file and --app-key-file, or kafka-kit's variables or DD_API_KEY and DD_APP_KEY",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsAccess:
    """Addresses and keys; kafka-kit's variables of keys begin with the tool's name."""

    api_key_file: Path | None = option(
        None, metavar="FILE", help="Datadog: the API key; else kafka-kit's variable or DD_API_KEY."
    )
    app_key_file: Path | None = option(
        None, metavar="FILE", help="Datadog: the application key; else kafka-kit's variable or DD_APP_KEY."
    )
    api_key: str | None = option(None, hidden=True, callback=no_key)
    app_key: str | None = option(None, hidden=True, callback=no_key)
    datadog_site: str = option(
        "datadoghq.com",
        envvar=["DATADOG_HOST", "DD_SITE"],
        metavar="SITE",
        help="Datadog: the site of the keys, or its address.",
    )
    prometheus_selector: str = option(
        "", metavar="MATCHERS", help="""Prometheus: added to the usual queries: 'namespace="kafka"'."""
    )
    prometheus_token_file: Path | None = option(None, metavar="FILE", help="Prometheus: a bearer token.")
    prometheus_user: str | None = option(None, metavar="NAME", help="Prometheus: basic authentication.")
    prometheus_password_file: Path | None = option(None, metavar="FILE", help="Prometheus: the user's password.")

    def open_prometheus(
        self,
        url: str,
        warn: Callable[[str], None],
        note_lack: Callable[[str], None],
        patience: Patience | None = None,
    ) -> SampleQueries:
        """The server; `patience` None is the usual one."""
        from kafkakit.wiring import open_prometheus

        access = (self.prometheus_token_file, self.prometheus_user, self.prometheus_password_file)
        return open_prometheus(url, *access, warn, note_lack, patience)

    def open_datadog(
        self, span_s: int, warn: Callable[[str], None], prefix: str, patience: Patience | None = None
    ) -> HostQueries:
        """The service, see `open_prometheus`; `prefix` is that of kafka-kit's variables."""
        from kafkakit.wiring import open_datadog_queries

        files = (self.api_key_file, self.app_key_file)
        return open_datadog_queries(self.datadog_site, *files, span_s, warn, prefix, patience)
