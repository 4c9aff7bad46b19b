"""Bodies of HTTP answers within limits of size and time, whichever client reads them."""

from collections.abc import Callable
from typing import Protocol

from kafkakit.core.errors import InputError

CHUNK_BYTES = 1 << 16


class UnreadBody(Protocol):
    """An answer whose head is read, such as `http.client.HTTPResponse`."""

    @property
    def length(self) -> int | None:
        """The announced bytes that did not come yet; None where none were announced."""
        ...

    def read1(self, n: int = ..., /) -> bytes:
        """Up to `n` bytes as soon as there are some; empty at the end."""
        ...


def read_body(
    answer: UnreadBody, source: str, most_bytes: int, *, timeout_s: float, end_s: float, clock_s: Callable[[], float]
) -> bytes:
    """The whole body; `timeout_s` ends at `end_s` of the clock, which is looked at after each chunk.

    Raises `InputError` naming `source` above `most_bytes`, `TimeoutError` after the end, and `ConnectionError` when
    fewer bytes come than were announced.
    """
    parts: list[bytes] = []
    total = 0
    while part := answer.read1(CHUNK_BYTES):
        total += len(part)
        if total > most_bytes:
            raise InputError(source, f"answers with more than {most_bytes:,} bytes")
        if clock_s() > end_s:
            raise TimeoutError(f"the answer took longer than {timeout_s:g} s")
        parts.append(part)
    if answer.length:
        raise ConnectionError("the answer ends early")
    return b"".join(parts)
