"""Datadog's API over HTTPS: sending series and events, queries, tags of hosts; tried again while the service is busy.

https://docs.datadoghq.com/api/latest/metrics/#submit-metrics
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from time import sleep
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kafkakit.adapters.metrics.http_service import ATTEMPTS, LOOPBACK, HttpService
from kafkakit.adapters.metrics.http_service import MOST_BYTES as MOST_ANSWERED
from kafkakit.config.security import Secret
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError, OperationFailedError, UsageError
from kafkakit.core.metric_sample import Sample
from kafkakit.core.printable import printable

DEFAULT_SITE = "datadoghq.com"
MOST_BYTES = 400_000
"""The service takes 500 kB in one request, uncompressed."""
MOST_TEXT = 4000
"""Characters of an event's text that the service keeps."""
_SITE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


class DatadogApi:
    """One organisation's intake at a site (`datadoghq.eu`) or an address, see `DatadogQueries`."""

    def __init__(self, key: Secret, site: str = DEFAULT_SITE, *, pause: Callable[[float], None] = sleep) -> None:
        base = _base(site)
        self._service = HttpService(base, base, {"DD-API-KEY": key}, timeout_s=10, pause=pause)

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

    def send_event(self, title: str, text: str, tags: Sequence[str]) -> None:
        """Post one event; raises as `send`. https://docs.datadoghq.com/api/latest/events/#post-an-event"""
        body = {"title": title, "text": text[:MOST_TEXT], "tags": list(tags)}
        self._service.request("/api/v1/events", json.dumps(body).encode())


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


class _DatadogSeries(msgspec.Struct):
    scope: str
    points: list[tuple[float, float | None]] = msgspec.field(name="pointlist")


class _DatadogAnswer(msgspec.Struct):
    status: str = "ok"
    series: list[_DatadogSeries] = []
    error: str | None = None


class _HostTags(msgspec.Struct):
    tags: list[str] = []


class DatadogQueries:
    """`ports.HostQueries` over Datadog's timeseries: the newest point of each series in twice `span_s`.

    `site` is one (`datadoghq.eu`), or an address: `https://api.datadoghq.eu`, or `http://` and a loopback address.
    https://docs.datadoghq.com/api/latest/metrics/#query-timeseries-points
    """

    def __init__(
        self,
        key: Secret,
        application_key: Secret,
        site: str = DEFAULT_SITE,
        *,
        span_s: int,
        timeout_s: float = 60,
        attempts: int = ATTEMPTS,
        pause: Callable[[float], None] = sleep,
        most_bytes: int = MOST_ANSWERED,
    ) -> None:
        secrets, base = {"DD-API-KEY": key, "DD-APPLICATION-KEY": application_key}, _base(site)
        self.source, self._span_s = f"Datadog {site}", span_s
        self._service = HttpService(
            base, base, secrets, timeout_s=timeout_s, attempts=attempts, pause=pause, most_bytes=most_bytes
        )

    def host_tags(self, host: str) -> tuple[str, ...]:
        """See `ports.HostQueries`; one request. https://docs.datadoghq.com/api/latest/tags/#get-host-tags"""
        data = self._service.request(f"/api/v1/tags/hosts/{quote(host, safe='')}")
        return tuple(decode_json(data, _HostTags, self.source).tags)

    def query(self, expression: str, at: datetime) -> tuple[Sample, ...]:
        """One request; labels are those of the scope, a tag's value ends at its second colon as in kafka-kit."""
        end_s = int(at.timestamp())
        words = {"from": end_s - 2 * self._span_s, "to": end_s, "query": expression}
        data = self._service.request(f"/api/v1/query?{urlencode(words)}")
        answer = decode_json(data, _DatadogAnswer, self.source)
        if answer.status != "ok" or answer.error:
            raise OperationFailedError(f"{self.source} cannot answer: {printable(answer.error or answer.status):.300}")
        return tuple(self._newest(series, at) for series in answer.series)

    def _newest(self, series: _DatadogSeries, at: datetime) -> Sample:
        tags = (tag.strip().split(":") for tag in series.scope.split(","))
        labels = {words[0]: words[1] for words in tags if len(words) > 1}
        moment, value = max(((t, v) for t, v in series.points if v is not None), default=(None, math.nan))
        try:
            return Sample(labels, value, at if moment is None else datetime.fromtimestamp(moment / 1000, UTC))
        except (ValueError, OverflowError, OSError):
            raise InputError(self.source, f"{moment!r:.40} is no time in milliseconds") from None


def _base(site: str) -> str:
    parts = urlsplit(site)
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return f"http://{parts.netloc}"
    if parts.scheme == "https" and _SITE.fullmatch(parts.netloc.partition(":")[0]) and parts.path in ("", "/"):
        return f"https://{parts.netloc}"
    if _SITE.fullmatch(site):
        return f"https://api.{site}"
    raise UsageError(f"{site[:60]!r} is no site of Datadog", hint=f"write {DEFAULT_SITE} or datadoghq.eu, say")
