"""The shape of a sandbox as requested, and the checks that need no machine."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import counted

KRAFT_VERSION = "4.4.0"
ZOOKEEPER_VERSION = "3.9.2"
FIRST_BROKER_ID = 1001
MAX_BROKERS = 50
MAX_RACKS = 26
MAX_LOG_DIRS = 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_RACK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-[A-Za-z0-9.-]+)?")


class Mode(StrEnum):
    """Who keeps the cluster's metadata."""

    KRAFT = "kraft"
    ZOOKEEPER = "zookeeper"


class Secure(StrEnum):
    """What clients must do to get in; brokers talk to each other on a loopback listener of their own."""

    NONE = "none"
    TLS = "tls"
    SCRAM = "scram"
    SCRAM_TLS = "scram-tls"

    @property
    def uses_tls(self) -> bool:
        """True when the client listener is encrypted."""
        return self in (Secure.TLS, Secure.SCRAM_TLS)

    @property
    def uses_scram(self) -> bool:
        """True when clients send a name and a password."""
        return self in (Secure.SCRAM, Secure.SCRAM_TLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """A checked request: `brokers` from id 1001 upwards, racks `a`, `b`, ... round robin.

    Brokers have as many log dirs as `log_dirs` says, in turn: (1, 3) gives the first one, the second three, ...
    `rack_of` gives the racks of single brokers by id. `offsets_partitions` is the number of partitions of
    `__consumer_offsets`: one is the quickest to make.
    """

    name: str
    brokers: int = 3
    racks: int = 3
    log_dirs: tuple[int, ...] = (1,)
    kafka: str = KRAFT_VERSION
    mode: Mode = Mode.KRAFT
    secure: Secure = Secure.NONE
    offsets_partitions: int = 1
    rack_of: Mapping[int, str] = field(default_factory=dict)

    def rack(self, index: int) -> str:
        """The rack of the broker of that index: the one given for its id, or the next letter in turn."""
        return self.rack_of.get(FIRST_BROKER_ID + index, chr(ord("a") + index % self.racks))

    def log_dirs_of(self, index: int) -> int:
        """How many log dirs the broker of that index has (0 is the first)."""
        return self.log_dirs[index % len(self.log_dirs)]


def parse_log_dirs(text: str) -> tuple[int, ...]:
    """Read `2` or `1,2,3`; raises `UsageError` for anything else."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) <= 4 for word in words):
        raise UsageError(
            f"--log-dirs {text!r:.60} is not a number", hint="write it like 2, or 1,2,3 for unlike brokers"
        )
    return tuple(int(word) for word in words)


def parse_racks_of(given: Sequence[str]) -> dict[int, str]:
    """Read `1007=b` texts; raises `UsageError` for anything else and for a broker that is named twice."""
    found: dict[int, str] = {}
    for text in given:
        broker, _, rack = text.partition("=")
        if not re.fullmatch(r"[0-9]{1,9}", broker, re.ASCII) or not _RACK.fullmatch(rack) or int(broker) in found:
            raise UsageError(
                f"--rack-of {text[:60]!r} gives no broker a rack", hint="write it like 1007=b, once a broker"
            )
        found[int(broker)] = rack
    return found


def check_name(name: str) -> str:
    """Return the name if it can name a folder and a profile; raises `UsageError` otherwise."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r:.60} cannot name a sandbox",
            hint="use up to 40 letters, digits, '-' and '_', starting with a letter or digit",
        )
    return name


def build_spec(
    *,
    name: str,
    brokers: int,
    racks: int,
    log_dirs: tuple[int, ...],
    kafka: str | None,
    mode: Mode,
    secure: Secure,
    offsets_partitions: int = 1,
    rack_of: Mapping[int, str] | None = None,
) -> SandboxSpec:
    """Check a request and fill in the Kafka version of its mode; raises `UsageError` with the limit it breaks."""
    check_name(name)
    for label, value, most in (
        ("--brokers", brokers, MAX_BROKERS),
        ("--racks", racks, min(brokers, MAX_RACKS)),
        *(("--log-dirs", count, MAX_LOG_DIRS) for count in log_dirs),
    ):
        if not 1 <= value <= most:
            raise UsageError(f"{label} {value} is out of range", hint=f"use 1 to {max(most, 1)}")
    ids = range(FIRST_BROKER_ID, FIRST_BROKER_ID + brokers)
    unknown = sorted(set(rack_of or ()) - set(ids))
    if unknown:
        raise UsageError(
            f"--rack-of names broker {unknown[0]}; with --brokers {brokers} the ids are {ids[0]} to {ids[-1]}",
            hint="a new broker needs a larger --brokers",
        )
    version = kafka or (ZOOKEEPER_VERSION if mode is Mode.ZOOKEEPER else KRAFT_VERSION)
    matched = _VERSION.fullmatch(version)
    if not matched:
        raise UsageError(f"--kafka {version!r:.60} is not a Kafka version", hint=f"write it like {KRAFT_VERSION}")
    release = (int(matched[1]), int(matched[2]))
    if release < (3, 7):
        raise UsageError(f"--kafka {version} is too old for the sandbox", hint="use 3.7.0 or newer")
    if mode is Mode.ZOOKEEPER and release >= (4, 0):
        raise UsageError(f"Kafka {version} has no ZooKeeper mode", hint=f"use --kafka {ZOOKEEPER_VERSION}")
    if mode is Mode.ZOOKEEPER and secure is not Secure.NONE:
        raise UsageError("--secure works with --mode kraft only", hint="leave out --mode zookeeper")
    return SandboxSpec(
        name=name,
        brokers=brokers,
        racks=racks,
        log_dirs=log_dirs,
        kafka=version,
        mode=mode,
        secure=secure,
        offsets_partitions=offsets_partitions,
        rack_of=dict(rack_of or {}),
    )


def continued(spec: SandboxSpec, before: SandboxSpec) -> SandboxSpec:
    """The request for a sandbox that has the shape `before`: racks given then stay.

    Raises `UsageError` where a broker of it is to have another rack: brokers keep theirs.
    """
    for broker, rack in spec.rack_of.items():
        index = broker - FIRST_BROKER_ID
        if index < before.brokers and before.rack(index) != rack:
            raise UsageError(
                f"broker {broker} runs in rack {before.rack(index)} already", hint="--rack-of is for new brokers"
            )
    return replace(spec, rack_of={**before.rack_of, **spec.rack_of})


def describe(spec: SandboxSpec) -> str:
    """A sandbox's shape in words."""
    secured = "" if spec.secure is Secure.NONE else f", secured with {spec.secure}"
    return (
        f"Kafka {spec.kafka} ({spec.mode}), {counted(spec.brokers, 'broker')}, {counted(spec.racks, 'rack')}, "
        f"{_dirs_words(spec)}{secured}"
    )


def _dirs_words(spec: SandboxSpec) -> str:
    if len(set(spec.log_dirs)) == 1:
        return f"{counted(spec.log_dirs[0], 'log dir')} each"
    return f"{', '.join(map(str, spec.log_dirs))} log dirs in turn"
