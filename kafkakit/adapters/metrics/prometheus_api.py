"""Prometheus' HTTP API, and that of what answers as it does (Thanos, Mimir, VictoriaMetrics): instant queries.

https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

from collections.abc import Callable
from datetime import UTC, datetime
from time import sleep
from urllib.parse import urlencode, urlsplit

import msgspec

from kafkakit.adapters.metrics.http_service import ATTEMPTS, LOOPBACK, MOST_BYTES, HttpService
from kafkakit.config.security import Secret
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError, OperationFailedError, UsageError
from kafkakit.core.metric_sample import Sample
from kafkakit.core.printable import printable

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
        base = _checked(url, authorization is not None)
        secrets = {} if authorization is None else {"Authorization": authorization}
        self.source = f"Prometheus {base}"
        self._warn = warn
        self._service = HttpService(
            base, self.source, secrets, timeout_s=timeout_s, attempts=attempts, pause=pause, most_bytes=most_bytes
        )

    def query(self, expression: str, at: datetime) -> tuple[Sample, ...]:
        """Evaluate an expression at a time; see `ports.SampleQueries`."""
        if len(expression) > MOST_EXPRESSION:
            raise UsageError(f"an expression of {len(expression):,} characters: the limit is {MOST_EXPRESSION:,}")
        # Thanos answers in part by default when a store is down.
        words = {"query": expression, "time": f"{at.timestamp():.3f}", "partial_response": "false"}
        answer = decode_json(self._service.request(f"/api/v1/query?{urlencode(words)}"), _Answer, self.source)
        if answer.status != "success" or answer.data is None:
            raise OperationFailedError(f"{self.source} cannot answer: {printable(answer.error or answer.status):.300}")
        for warning in answer.warnings:
            self._warn(f"{self.source}: {printable(warning):.300}")
        kind = answer.data.result_type
        if kind == "scalar":
            moment, number = decode_json(bytes(answer.data.result), tuple[float, str], self.source)
            return (self._sample({}, moment, number),)
        if kind != "vector":
            raise InputError(f"{expression!r:.200}", f"gives a {kind:.40} where one value a series is needed")
        series = decode_json(bytes(answer.data.result), list[_Series], self.source)
        return tuple(self._sample(one.metric, *one.value) for one in series)

    def _sample(self, labels: dict[str, str], moment: float, number: str) -> Sample:
        try:
            return Sample(labels, float(number), datetime.fromtimestamp(moment, UTC))
        except (ValueError, OverflowError, OSError):
            raise InputError(self.source, f"{number!r:.40} at {moment:g} s is no value at a time") from None


def _checked(url: str, sends_secret: bool) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or not (url.isascii() and url.isprintable()) or " " in url:
        raise UsageError(f"{printable(url):.80} is no address of Prometheus", hint="write http://HOST:9090, say")
    if "@" in parts.netloc:
        raise UsageError("the address of Prometheus holds credentials", hint="name a file that has them instead")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise UsageError(f"{url:.80} is more than an address", hint="leave out what begins at ? or #")
    if sends_secret and parts.scheme == "http" and host not in LOOPBACK:
        raise UsageError(f"credentials would go to {host} unencrypted", hint="use https://, or 127.0.0.1 with a tunnel")
    return url.rstrip("/")
