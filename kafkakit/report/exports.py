"""What other programs read: metrics as Prometheus text exposition (format 0.0.4) and as DogStatsD's plain datagrams;
SARIF 2.1.0; the files by which systemd and cron start a command.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import Place, Severity
from kafkakit.report.report import Report, ResultTable, lines_from

T = TypeVar("T")
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


def single_gauge(name: str, about: str, value: float) -> MetricFamily:
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
    return "{" + ",".join(f'{name}="{_escape_value(value)}"' for name, value in labels) + "}"


def _escape_value(value: str) -> str:
    visible = _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", value)
    return visible.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RESULTS = 5_000
"""GitHub shows the first 5,000 results of a run."""
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifRule:
    """A rule as its service shows it; without `url` it has no link."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    text: str
    markdown: str
    family: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifResult:
    """One finding, or `number` findings of one rule in one place, of which this is the first."""

    code: str
    severity: Severity
    message: str
    where: str
    fingerprint: str
    number: int = 1
    place: Place | None = None


def group_items(items: Sequence[T], key: Callable[[T], Hashable], most: int) -> list[tuple[T, int]]:
    """Each item with the number 1; where there are more than `most`, the first of each key and how many there are."""
    if len(items) <= most:
        return [(item, 1) for item in items]
    first: dict[Hashable, T] = {}
    numbers: Counter[Hashable] = Counter()
    for item in items:
        first.setdefault(key(item), item)
        numbers[key(item)] += 1
    return [(item, numbers[found]) for found, item in first.items()]


def sarif_log(version: str, rules: Sequence[SarifRule], results: Iterable[SarifResult]) -> str:
    """A SARIF log with one run; `rules` has the rule of each result."""
    index = {rule.code: number for number, rule in enumerate(rules)}
    driver = {"name": "kafkakit", "version": version, "rules": [_rule(rule) for rule in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(result, index[result.code]) for result in results],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: SarifRule) -> dict[str, object]:
    return {
        "id": f"kafkakit/{rule.code}",
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why or rule.summary},
        **({"helpUri": rule.url} if rule.url else {}),
        "help": {"text": rule.text, "markdown": rule.markdown},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["kafka", rule.family]},
    }


_URI = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def uri_of(path: str) -> str:
    """A path as a URI reference; blanks, `#`, `%`, `?` and what is not ASCII are escaped."""
    return "".join(chr(byte) if byte in _URI else f"%{byte:02X}" for byte in path.encode("utf-8", "surrogateescape"))


def uri_part(text: str) -> str:
    """A name as one part of the path, or of the query, of a URI."""
    return uri_of(text).replace("/", "%2F")


def _result(result: SarifResult, rule_index: int) -> dict[str, object]:
    more = f" (and {result.number - 1} more of this rule here)" if result.number > 1 else ""
    location: dict[str, object] = {"logicalLocations": [{"name": result.where}]}
    if result.place is not None:
        physical = {
            "artifactLocation": {"uri": uri_of(result.place.path)},
            "region": {"startLine": result.place.line, "startColumn": result.place.column},
        }
        location = {"physicalLocation": physical, **location}
    return {
        "ruleId": f"kafkakit/{result.code}",
        "ruleIndex": rule_index,
        "level": _LEVELS[result.severity],
        "message": {"text": f"{result.message} ({result.where}){more}"},
        "partialFingerprints": {"kafkakit/v1": result.fingerprint},
        "locations": [location],
    }


_CONFINED = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
CapabilityBoundingSet=
UMask=0022
"""
_UNIT = """\
[Unit]
Description={what}
Wants=network-online.target
After=network-online.target

[Service]
"""
_SERVICE = f"""\
{_UNIT}Type=oneshot
ExecStart=/bin/sh -c {{script}}
TimeoutStartSec={{timeout}}
{{environment}}# A user that may write to the places below, which must exist.
User=kafkakit
StateDirectory=kafkakit
Environment=XDG_STATE_HOME=/var/lib
{{writes}}{_CONFINED}"""
_RUNNING = f"""\
{_UNIT}{{type}}ExecStart={{command}}
{{watchdog}}Restart=on-failure
RestartSec=5s
SuccessExitStatus={{stopped}}
User=kafkakit
StateDirectory=kafkakit
Environment=XDG_STATE_HOME=/var/lib
EnvironmentFile=-{{environment}}
{_CONFINED}
[Install]
WantedBy=multi-user.target
"""
_TIMER = """\
[Unit]
Description={what}

[Timer]
OnCalendar={when}
RandomizedDelaySec={delay}
Persistent=true

[Install]
WantedBy=timers.target
"""


def files_report(command: str, form: str, files: Mapping[str, str]) -> Report:
    """The files by name as a report; with several of them each begins with a comment that names it."""
    return Report(
        command=command,
        data={"format": form, "files": dict(files)},
        sections=lines_from("\n".join(f"# {name}\n{text}" if len(files) > 1 else text for name, text in files.items())),
        table=ResultTable(
            ("file", "line"), tuple((name, line) for name, text in files.items() for line in text.splitlines())
        ),
    )


def service_text(what: str, script: str, places: Iterable[str], *, timeout: str, environment: str = "") -> str:
    """A service that runs `script` once; it may write to those `places` that are absolute paths.

    `environment` is the path of a file with variables, which may be missing.
    """
    local = dict.fromkeys(place for place in places if place.startswith("/"))
    return _SERVICE.format(
        what=what,
        script=systemd_word(script, dollars=True),
        timeout=timeout,
        environment=f"EnvironmentFile=-{environment}\n" if environment else "",
        writes="".join(f"ReadWritePaths={systemd_word(place)}\n" for place in local),
    )


def running_service_text(what: str, words: Sequence[str], *, environment: str, notifies: bool = True) -> str:
    """A service that runs a command until it is stopped.

    One that notifies says when it is ready, and that it still works. The first of the words is a path as it is; all
    others are quoted.
    """
    return _RUNNING.format(
        what=what,
        command=" ".join((words[0], *(systemd_word(word, dollars=True) for word in words[1:]))),
        type="Type=notify\n" if notifies else "Type=exec\n",
        watchdog="WatchdogSec=5min\n" if notifies else "",
        stopped=int(ExitCode.TERMINATED),
        environment=environment,
    )


def timer_text(what: str, when: str, *, delay: str) -> str:
    """The timer of the service with the same name; `when` as in systemd.time(7)."""
    return _TIMER.format(what=what, when=when, delay=delay)


def cron_line(when: str, script: str) -> str:
    """A line for a user's crontab; cron ends a command at a bare %, and has one line for it."""
    return f"{when} {script.replace('%', chr(92) + '%')}\n"


def folder_of(path: str) -> str:
    """The folder of a file with an absolute path."""
    return path.rpartition("/")[0] or "/"


def systemd_word(text: str, *, dollars: bool = False) -> str:
    """One word of a unit file in quotes: specifiers, escapes and, in command lines, variables are plain text in it."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted.replace("$", "$$") if dollars else quoted}"'
