"""Sending metrics to Datadog's API: series as JSON over HTTPS, in parts, tried again while the service is busy.

https://docs.datadoghq.com/api/latest/metrics/#submit-metrics
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import sleep
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from kafkakit.config.security import Secret
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError

DEFAULT_SITE = "datadoghq.com"
MOST_BYTES = 400_000
"""The service takes 500 kB in one request, uncompressed."""
ATTEMPTS = 4
_SITE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class _NoRedirect(HTTPRedirectHandler):
    """Another host must not get the key."""

    def redirect_request(self, *args: object) -> None:
        return None


class DatadogApi:
    """One organisation's intake at a site (`datadoghq.eu`), or at `http://` and a loopback address with its port."""

    def __init__(
        self, key: Secret, site: str = DEFAULT_SITE, *, timeout_s: float = 10, pause: Callable[[float], None] = sleep
    ) -> None:
        parts = urlsplit(site)
        if parts.scheme == "http" and parts.hostname in _LOOPBACK:
            base, proxies = f"http://{parts.netloc}", [ProxyHandler({})]
        elif _SITE.fullmatch(site):
            base, proxies = f"https://api.{site}", []
        else:
            raise UsageError(f"{site[:60]!r} is no site of Datadog", hint=f"write {DEFAULT_SITE} or datadoghq.eu, say")
        self._url, self._key = f"{base}/api/v2/series", key
        self._timeout_s, self._pause = timeout_s, pause
        self._opener = build_opener(_NoRedirect, *proxies)

    def send(self, series: Iterable[Mapping[str, object]]) -> int:
        """Send series, each as the API's documents name its fields; returns how many.

        Raises `OperationFailedError` when the service refuses them, `TryLaterError` when it does not answer in four
        attempts; what was sent before stays.
        """
        sent = 0
        for number, body in _bodies(series):
            self._post(body)
            sent += number
        return sent

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "DD-API-KEY": self._key.reveal()}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                request = Request(self._url, data=body, headers=headers, method="POST")
                with self._opener.open(request, timeout=self._timeout_s):
                    return
            except HTTPError as error:
                with error:
                    problem, wait_s = f"HTTP {error.code}", _retry_after_s(error)
                if error.code not in (408, 429) and error.code < 500:
                    hint = "check the key and the site" if error.code in (401, 403) else None
                    raise OperationFailedError(f"{self._url} refuses the metrics: {problem}", hint=hint) from None
            except (URLError, OSError) as error:
                problem, wait_s = str(getattr(error, "reason", error)), 0.0
            if attempt < ATTEMPTS:
                self._pause(max(wait_s, 2.0 ** (attempt - 1)))
        raise TryLaterError(f"{self._url} takes no metrics: {problem}", hint=f"{ATTEMPTS} attempts were made")


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


def _retry_after_s(error: HTTPError) -> float:
    """What the service asks to wait for, at most a minute."""
    told = error.headers.get("Retry-After") or error.headers.get("X-RateLimit-Reset") or ""
    return min(60.0, float(told)) if told.isdecimal() else 0.0
