"""Requests to an HTTP API of metrics: secrets in headers alone, no redirects, limits on time, size and attempts."""

import json
from collections.abc import Callable, Mapping
from http.client import HTTPException
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from kafkakit.config.security import MASK, Secret
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
from kafkakit.core.http_body import read_body
from kafkakit.core.printable import printable

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
        return f": {printable(text)}" if text else ""


def _retry_after_s(error: HTTPError) -> float:
    """What the service asks to wait for, at most a minute."""
    told = error.headers.get("Retry-After") or error.headers.get("X-RateLimit-Reset") or ""
    return min(60.0, float(told)) if told.isdecimal() and told.isascii() else 0.0
