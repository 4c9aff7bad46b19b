"""Gauges and summaries as Prometheus text exposition, format 0.0.4, and as DogStatsD's plain datagrams.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

Labels = tuple[tuple[str, str], ...]
DATAGRAM_BYTES = 1_400
"""What fits into one packet on any network, for metrics that leave the machine."""
TAG_CHARS = 200
_UNSAFE = re.compile(r"[|,#%\s\x00-\x1f]")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters of names that end a scrape (NUL, in Prometheus' lexer) or a line in some readers; a newline has its
escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A gauge: its name without the prefix, its help, and its samples; one without samples is left out.

    With `totals` it is a summary: its samples are quantiles, and each total is a count and a sum since the start.
    """

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]
    totals: tuple[tuple[Labels, int, float], ...] = ()


def gauge(name: str, about: str, *samples: tuple[Labels, float]) -> MetricFamily:
    """A gauge with these samples."""
    return MetricFamily(name=name, help=about, samples=samples)


def single(name: str, about: str, value: float) -> MetricFamily:
    """A gauge of one value without labels."""
    return MetricFamily(name=name, help=about, samples=(((), float(value)),))


def exposition(found: Iterable[MetricFamily], prefix: str, labels: Labels = ()) -> str:
    """Families as Prometheus reads them, each sample with `labels` before its own; empty without samples."""
    lines: list[str] = []
    for family in found:
        if family.samples or family.totals:
            name = prefix + family.name
            kind = "summary" if family.totals else "gauge"
            lines += [f"# HELP {name} {_help(family.help)}", f"# TYPE {name} {kind}"]
            lines += [
                f"{name}{more}{_labels((*labels, *own))} {number(value)}" for more, own, value in _samples(family)
            ]
    return "\n".join([*lines, ""])


def datagrams(
    found: Iterable[MetricFamily], prefix: str, *, tags: Sequence[str] = (), max_bytes: int = DATAGRAM_BYTES
) -> list[bytes]:
    """Families as DogStatsD gauges, named with dots for the first two underscores, as many to a datagram as fit.

    A line that alone is longer than `max_bytes` is left out; tags are at most 200 characters long, so none is.
    """
    packets: list[bytes] = []
    packet = b""
    for family in found:
        name = (prefix + family.name).replace("_", ".", 2)
        for more, labels, value in _samples(family):
            joined = ",".join([*tags, *(tag(key, word) for key, word in labels)])
            line = f"{name}{more}:{number(value)}|g{'|#' + joined if joined else ''}".encode()
            if len(line) > max_bytes:
                continue
            if packet and len(packet) + 1 + len(line) > max_bytes:
                packets.append(packet)
                packet = b""
            packet = packet + b"\n" + line if packet else line
    return [*packets, packet] if packet else packets


def tag(key: str, value: str) -> str:
    """A tag whose value no other name has: what may not stand in one is percent-encoded, what is too long is hashed."""
    safe = _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode("utf-8", "surrogatepass")), value)
    if len(f"{key}:{safe}") > TAG_CHARS:
        digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        safe = f"{safe[: TAG_CHARS - len(key) - len(digest) - 2]}~{digest}"
    return f"{key}:{safe}"


def number(value: float) -> str:
    """A sample's value: a whole number, or three decimals."""
    return str(int(value)) if value == int(value) else repr(round(value, 3))


def _samples(family: MetricFamily) -> Iterator[tuple[str, Labels, float]]:
    """Every line of a family: what follows its name, labels and value."""
    for labels, value in family.samples:
        yield "", labels, value
    for labels, count, total in family.totals:
        yield "_sum", labels, total
        yield "_count", labels, count


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    visible = _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", value)
    return visible.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
