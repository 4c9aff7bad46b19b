"""A strict reader of Prometheus text exposition for tests: https://prometheus.io/docs/instrumenting/exposition_formats/"""

import re

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    """Every sample by name and labels; fails on anything out of order, named twice, or without HELP and TYPE."""
    assert text.endswith("\n")
    found: Samples = {}
    closed: set[str] = set()
    helped = typed = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ")[2]
            assert helped not in closed, f"{helped} comes twice"
            assert len(line.split(" ", 3)) == 4, f"{helped} has no help"
            closed.add(helped)
        elif line.startswith("# TYPE "):
            typed = line.split(" ")[2]
            assert line.split(" ")[3] == "gauge"
            assert typed == helped
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            assert name == typed, f"{name} has no TYPE before it"
            pairs = tuple((m[1], _plain(m[2])) for m in LABEL.finditer(labels))
            assert ",".join(f'{k}="{m[2]}"' for (k, _), m in zip(pairs, LABEL.finditer(labels), strict=True)) == labels
            assert (name, pairs) not in found, line
            found[name, pairs] = float(value)
    return found


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value)
