"""Services of metrics: Prometheus' HTTP API, Datadog's API and agent, DogStatsD, and the HTTP requests to them.

HTTP requests carry secrets only in headers, follow no redirects, and have limits on time, size and attempts.

Prometheus, and what answers as it does (Thanos, Mimir, VictoriaMetrics): instant queries.
https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries

Datadog's API over HTTPS: series and events are sent, queries and tags of hosts read; tried again while the service is
busy. https://docs.datadoghq.com/api/latest/metrics/#submit-metrics

Datadog's agent gets sums of pathways over HTTP and hands them on unread; it listens on port 8126 and takes them from
version 7.34 on. https://docs.datadoghq.com/data_streams/

DogStatsD datagrams go to the agent over UDP and are not acknowledged.
https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/
"""

import json
import math
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from kafkakit.config.security import MASK, Secret
from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.rpc import read_body
from kafkakit.core.text import sanitize
from kafkakit.streams.model.pathways import PATH, Bucket, PayloadSender, encode_payload, payload_headers

ATTEMPTS = 4
MOST_BYTES = 128 << 20
"""The largest answer that is read: a million series."""
JSON: Mapping[str, str] = {"Content-Type": "application/json"}
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_EXPLAINED_BYTES = 4096


class _NoRedirect(HTTPRedirectHandler):
    """Another host must not get the secrets."""

    def redirect_request(self, *args: object) -> None:
        return None


class HttpService:
    """One API below `base`, without a slash at its end; `what` names it in errors.

    `timeout_s` is for each of at most `attempts` attempts as a whole, its connection included; a proxy of the
    environment is used, but not for addresses of this host.
    """

    def __init__(
        self,
        base: str,
        what: str,
        secrets: Mapping[str, Secret],
        *,
        timeout_s: float = 10,
        attempts: int = ATTEMPTS,
        pause: Callable[[float], None] = sleep,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        for name, secret in secrets.items():
            if not secret.reveal().isascii() or not secret.reveal().isprintable():
                raise UsageError(f"the secret for {what} has characters that no header ({name}) can hold")
        self._base, self._what, self._secrets = base, what, secrets
        self._timeout_s, self._attempts, self._pause, self._most_bytes = timeout_s, attempts, pause, most_bytes
        proxies = [ProxyHandler({})] if urlsplit(base).hostname in LOOPBACK else []
        self._opener = build_opener(_NoRedirect, *proxies)

    def request(self, path: str, body: bytes | None = None, headers: Mapping[str, str] = JSON) -> bytes:
        """GET a path with its query, or POST a body to it with what `headers` say of it; returns that of the answer.

        Raises `OperationFailedError` when the service refuses it, `TryLaterError` when it does not answer in
        `attempts`, `InputError` for an answer larger than the limit.
        """
        sent = {name: secret.reveal() for name, secret in self._secrets.items()}
        if body is not None:
            sent.update(headers)
        for attempt in range(1, self._attempts + 1):
            end_s, wait_s = monotonic() + self._timeout_s, 0.0
            try:
                request = Request(self._base + path, data=body, headers=sent)
                with self._opener.open(request, timeout=self._timeout_s) as response:
                    # Each read has the time limit of the socket, and all of them together that of the attempt.
                    times = {"timeout_s": self._timeout_s, "end_s": end_s}
                    return read_body(response, self._what, self._most_bytes, **times, clock_s=monotonic)
            except HTTPError as error:
                with error:
                    problem, wait_s = f"HTTP {error.code}{self._explanation(error)}", _retry_after_s(error)
                if error.code not in (408, 429) and error.code < 500:
                    hint = "check the credentials and the address" if error.code in (401, 403, 404) else None
                    raise OperationFailedError(f"{self._what} refuses the request: {problem}", hint=hint) from None
            except (URLError, OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                problem = str(getattr(reason, "strerror", None) or reason) or type(reason).__name__
            if attempt < self._attempts:
                self._pause(max(wait_s, 2.0 ** (attempt - 1)))
        raise TryLaterError(f"{self._what} gives no answer: {problem}", hint=f"{self._attempts} attempts were made")

    def _explanation(self, error: HTTPError) -> str:
        """What the service gives as its reason, in one line."""
        try:
            told: Any = json.loads(error.read(_EXPLAINED_BYTES))
            reason = told.get("error") or ", ".join(map(str, told.get("errors", ())))
        except (ValueError, AttributeError, TypeError, OSError, HTTPException, RecursionError):
            return ""
        text = " ".join(str(reason).split())[:300]
        for secret in self._secrets.values():
            text = text.replace(secret.reveal().rpartition(" ")[2], MASK)
        return f": {sanitize(text)}" if text else ""


def _retry_after_s(error: HTTPError) -> float:
    """What the service asks to wait for, at most a minute."""
    told = error.headers.get("Retry-After") or error.headers.get("X-RateLimit-Reset") or ""
    return min(60.0, float(told)) if told.isdecimal() and told.isascii() else 0.0


MOST_EXPRESSION = 6000
"""Characters of an expression, which travels in the address of the request."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType")
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


class PrometheusApi:
    """`ports.SampleQueries` over one server; `url` is `http://HOST:PORT` or `https://HOST/PREFIX`, without `/api/v1`.

    `authorization` is the whole header (`Bearer ...`). `warn` gets the warnings of answers: what they hold is then
    incomplete. Raises `UsageError` for an address that cannot be used, or that would send a secret in the clear.
    """

    def __init__(
        self,
        url: str,
        authorization: Secret | None = None,
        *,
        warn: Callable[[str], None],
        timeout_s: float = 30,
        attempts: int = ATTEMPTS,
        pause: Callable[[float], None] = sleep,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        base = _check_url(url, authorization is not None)
        secrets = {} if authorization is None else {"Authorization": authorization}
        self.source = f"Prometheus {base}"
        self._warn = warn
        self._service = HttpService(
            base, self.source, secrets, timeout_s=timeout_s, attempts=attempts, pause=pause, most_bytes=most_bytes
        )

    def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
        """Evaluate an expression at a time; see `ports.SampleQueries`."""
        if len(expression) > MOST_EXPRESSION:
            raise UsageError(f"an expression of {len(expression):,} characters: the limit is {MOST_EXPRESSION:,}")
        # Thanos answers in part by default when a store is down.
        words = {"query": expression, "time": f"{at.timestamp():.3f}", "partial_response": "false"}
        answer = decode_json(self._service.request(f"/api/v1/query?{urlencode(words)}"), _Answer, self.source)
        if answer.status != "success" or answer.data is None:
            raise OperationFailedError(f"{self.source} cannot answer: {sanitize(answer.error or answer.status):.300}")
        for warning in answer.warnings:
            self._warn(f"{self.source}: {sanitize(warning):.300}")
        kind = answer.data.result_type
        if kind == "scalar":
            moment, number = decode_json(bytes(answer.data.result), tuple[float, str], self.source)
            return (self._sample({}, moment, number),)
        if kind != "vector":
            raise InputError(f"{expression!r:.200}", f"gives a {kind:.40}, not one value for each series")
        series = decode_json(bytes(answer.data.result), list[_Series], self.source)
        return tuple(self._sample(one.metric, *one.value) for one in series)

    def _sample(self, labels: dict[str, str], moment: float, number: str) -> MetricSample:
        try:
            return MetricSample(labels, float(number), datetime.fromtimestamp(moment, UTC))
        except (ValueError, OverflowError, OSError):
            raise InputError(self.source, f"{number!r:.40} at {moment:g} s is not a number with a time") from None


def _check_url(url: str, sends_secret: bool) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or not (url.isascii() and url.isprintable()) or " " in url:
        raise UsageError(f"{sanitize(url):.80} is not an address of Prometheus", hint="write http://HOST:9090, say")
    if "@" in parts.netloc:
        raise UsageError("the address of Prometheus holds credentials", hint="name a file that has them instead")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise UsageError(f"{url:.80} is more than an address", hint="leave out what begins at ? or #")
    if sends_secret and parts.scheme == "http" and host not in LOOPBACK:
        raise UsageError(f"credentials would go to {host} unencrypted", hint="use https://, or 127.0.0.1 with a tunnel")
    return url.rstrip("/")


DEFAULT_SITE = "datadoghq.com"
DATADOG_MOST_BYTES = 400_000
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
        if lines and size + len(line) > DATADOG_MOST_BYTES:
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


class _Validity(msgspec.Struct):
    valid: bool = False


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
        most_bytes: int = MOST_BYTES,
    ) -> None:
        secrets, base = {"DD-API-KEY": key, "DD-APPLICATION-KEY": application_key}, _base(site)
        self.source, self._span_s = f"Datadog {site}", span_s
        self._service = HttpService(
            base, base, secrets, timeout_s=timeout_s, attempts=attempts, pause=pause, most_bytes=most_bytes
        )

    def check_keys(self) -> None:
        """See `ports.HostQueries`. https://docs.datadoghq.com/api/latest/authentication/#validate-api-key"""
        try:
            answer = decode_json(self._service.request("/api/v1/validate"), _Validity, self.source)
        except OperationFailedError as error:
            raise OperationFailedError(f"invalid API or app key: {error.message}", hint=error.hint) from None
        if not answer.valid:
            raise OperationFailedError(
                f"invalid API or app key: {self.source} does not know the API key", hint="check the key and the site"
            )

    def host_tags(self, host: str) -> tuple[str, ...]:
        """See `ports.HostQueries`; one request. https://docs.datadoghq.com/api/latest/tags/#get-host-tags"""
        data = self._service.request(f"/api/v1/tags/hosts/{quote(host, safe='')}")
        return tuple(decode_json(data, _HostTags, self.source).tags)

    def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
        """One request; labels are those of the scope, a tag's value ends at its second colon as in kafka-kit."""
        end_s = int(at.timestamp())
        words = {"from": end_s - 2 * self._span_s, "to": end_s, "query": expression}
        data = self._service.request(f"/api/v1/query?{urlencode(words)}")
        answer = decode_json(data, _DatadogAnswer, self.source)
        if answer.status != "ok" or answer.error:
            raise OperationFailedError(f"{self.source} cannot answer: {sanitize(answer.error or answer.status):.300}")
        return tuple(self._newest(series, at) for series in answer.series)

    def _newest(self, series: _DatadogSeries, at: datetime) -> MetricSample:
        tags = (tag.strip().split(":") for tag in series.scope.split(","))
        labels = {words[0]: words[1] for words in tags if len(words) > 1}
        moment, value = max(((t, v) for t, v in series.points if v is not None), default=(None, math.nan))
        try:
            return MetricSample(labels, value, at if moment is None else datetime.fromtimestamp(moment / 1000, UTC))
        except (ValueError, OverflowError, OSError):
            raise InputError(self.source, f"{moment!r:.40} is not a time in milliseconds") from None


def _base(site: str) -> str:
    parts = urlsplit(site)
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return f"http://{parts.netloc}"
    if parts.scheme == "https" and _SITE.fullmatch(parts.netloc.partition(":")[0]) and parts.path in ("", "/"):
        return f"https://{parts.netloc}"
    if _SITE.fullmatch(site):
        return f"https://api.{site}"
    raise UsageError(f"{site[:60]!r} is not a Datadog site", hint=f"write {DEFAULT_SITE} or datadoghq.eu, say")


AGENT_ATTEMPTS = 3
TIMEOUT_S = 2.0
"""Three attempts and the pauses between them take less than the 10 s of a bucket."""


class DatadogAgent:
    """One agent; `address` is `HOST:PORT`."""

    def __init__(self, address: str, *, pause: Callable[[float], None] = sleep) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(
                f"{address[:60]!r} is not the address of an agent", hint="write HOST:PORT, 127.0.0.1:8126 say"
            )
        base, what = f"http://{address}", f"the agent {address}"
        self._service = HttpService(base, what, {}, timeout_s=TIMEOUT_S, attempts=AGENT_ATTEMPTS, pause=pause)

    def send(self, sender: PayloadSender, buckets: Iterable[Bucket]) -> None:
        """Send buckets; the caller counts those that were not sent.

        Raises `OperationFailedError` when the agent refuses them (HTTP 404: it is older than 7.34), `TryLaterError`
        when it does not answer in three attempts.
        """
        self._service.request(PATH, encode_payload(sender, buckets), payload_headers(sender))


class DogStatsd:
    """One agent; `address` is `HOST:PORT`. The name is looked up once, at the start."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(
                f"{address[:60]!r} is not the address of an agent", hint="write HOST:PORT, 127.0.0.1:8125 say"
            )
        try:
            family, kind, proto, _, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        except OSError as error:
            raise UsageError(f"the agent {address} cannot be found: {error.strerror or error}") from None
        self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, proto)
        self._target = target
        self.dropped = 0

    def send(self, datagrams: Iterable[bytes]) -> None:
        """Send them at once; what the machine does not take is dropped and counted in `dropped`."""
        for datagram in datagrams:
            try:
                self._socket.sendto(datagram, self._target)
            except OSError:
                self.dropped += 1

    def close(self) -> None:
        """Let go of the socket; closing twice is harmless."""
        self._socket.close()
