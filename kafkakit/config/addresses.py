"""Kafka addresses as text: `HOST:PORT`, with commas between, IPv6 in brackets."""

from kafkakit.core.errors import UsageError


def parse_addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Split into (host, port), in order; raises `UsageError` naming the part that is no address."""
    found: list[tuple[str, int]] = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        host, colon, port = part.rpartition(":")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
        bracketed = host.startswith("[") and host.endswith("]")
        name = host[1:-1] if bracketed else host
        if not colon or not name or not 0 < number < 65536 or (":" in name and not bracketed):
            raise UsageError(f"{part[:80]!r} is not an address", hint="write HOST:PORT, or [IPV6]:PORT")
        found.append((name, number))
    return tuple(found)
