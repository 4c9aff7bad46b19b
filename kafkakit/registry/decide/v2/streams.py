"""Events of a watch as server-sent events, whose format is that of the HTML standard."""

import msgspec

from kafkakit.registry.decide.v2.messages import WatchEvent

RETRY_MS = 2000


def to_sse(event: WatchEvent) -> bytes:
    """One event: its id is what a browser sends back as Last-Event-ID, its data the event as JSON in one line."""
    lines = [f"event: {event.type}".encode(), b"data: " + msgspec.json.encode(event)]
    if event.event_id:
        lines.insert(0, f"id: {event.event_id}".encode())
    if event.type == "start":
        lines.insert(0, f"retry: {RETRY_MS}".encode())
    return b"\n".join((*lines, b"", b""))
