"""Gauges as Prometheus text exposition, format 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters of names that end a scrape (NUL, in Prometheus' lexer) or a line in some readers; a newline has its
escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A gauge: its name without the prefix, its help, and its samples; one without samples is left out."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]


def gauge(name: str, about: str, *samples: tuple[Labels, float]) -> MetricFamily:
    """A gauge with these samples."""
    return MetricFamily(name=name, help=about, samples=samples)


def single(name: str, about: str, value: float) -> MetricFamily:
    """A gauge of one value without labels."""
    return MetricFamily(name=name, help=about, samples=(((), float(value)),))


def exposition(found: Iterable[MetricFamily], prefix: str, labels: Labels = ()) -> str:
    """Families as Prometheus reads them, each sample with `labels` before its own."""
    lines: list[str] = []
    for family in found:
        if family.samples:
            name = prefix + family.name
            lines += [f"# HELP {name} {_help(family.help)}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels((*labels, *own))} {number(value)}" for own, value in family.samples]
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """A sample's value: a whole number, or three decimals."""
    return str(int(value)) if value == int(value) else repr(round(value, 3))


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    visible = _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", value)
    return visible.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
