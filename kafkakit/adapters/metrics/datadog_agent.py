"""Sending sums of pathways to a Datadog agent over HTTP, which hands them on unread.

https://docs.datadoghq.com/data_streams/ ; the agent listens on port 8126 and takes them from version 7.34 on.
"""

from collections.abc import Callable, Iterable
from time import sleep

from kafkakit.adapters.metrics.http_service import HttpService
from kafkakit.core.errors import UsageError
from kafkakit.streams.model.pathways import PATH, Bucket, PayloadSender, encode_payload, payload_headers

ATTEMPTS = 3
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
        self._service = HttpService(base, what, {}, timeout_s=TIMEOUT_S, attempts=ATTEMPTS, pause=pause)

    def send(self, sender: PayloadSender, buckets: Iterable[Bucket]) -> None:
        """Send buckets; the caller counts those that were not sent.

        Raises `OperationFailedError` when the agent refuses them (HTTP 404: it is older than 7.34), `TryLaterError`
        when it does not answer in three attempts.
        """
        self._service.request(PATH, encode_payload(sender, buckets), payload_headers(sender))
