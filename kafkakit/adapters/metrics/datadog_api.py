"""Sending metrics to Datadog's API: series as JSON over HTTPS, in parts, tried again while the service is busy.

https://docs.datadoghq.com/api/latest/metrics/#submit-metrics
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import sleep
from urllib.parse import urlsplit

from kafkakit.adapters.metrics.http_service import LOOPBACK, HttpService
from kafkakit.config.security import Secret
from kafkakit.core.errors import UsageError

DEFAULT_SITE = "datadoghq.com"
MOST_BYTES = 400_000
"""The service takes 500 kB in one request, uncompressed."""
_SITE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


class DatadogApi:
    """One organisation's intake at a site (`datadoghq.eu`), or at `http://` and a loopback address with its port."""

    def __init__(
        self, key: Secret, site: str = DEFAULT_SITE, *, timeout_s: float = 10, pause: Callable[[float], None] = sleep
    ) -> None:
        parts = urlsplit(site)
        if parts.scheme == "http" and parts.hostname in LOOPBACK:
            base = f"http://{parts.netloc}"
        elif _SITE.fullmatch(site):
            base = f"https://api.{site}"
        else:
            raise UsageError(f"{site[:60]!r} is no site of Datadog", hint=f"write {DEFAULT_SITE} or datadoghq.eu, say")
        self._service = HttpService(base, base, {"DD-API-KEY": key}, timeout_s=timeout_s, pause=pause)

    def send(self, series: Iterable[Mapping[str, object]]) -> int:
        """Send series, each as the API's documents name its fields; returns how many.

        Raises `OperationFailedError` when the service refuses them, `TryLaterError` when it does not answer in four
        attempts; what was sent before stays.
        """
        sent = 0
        for number, body in _bodies(series):
            self._service.request("/api/v2/series", body)
            sent += number
        return sent


def _bodies(series: Iterable[Mapping[str, object]]) -> Iterator[tuple[int, bytes]]:
    lines: list[bytes] = []
    size = 0
    for one in series:
        line = json.dumps(one).encode()
        if lines and size + len(line) > MOST_BYTES:
            yield len(lines), b'{"series":[' + b",".join(lines) + b"]}"
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield len(lines), b'{"series":[' + b",".join(lines) + b"]}"
