"""The shape of a sandbox as requested, the processes that it has, and the record of those that were started.

The checks need no machine. Processes have ids, racks, ports and folders; the record says how to recognise each one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.programs import ProcessRecord
from kafkakit.core.quantities import count_of

KRAFT_VERSION = "4.4.0"
ZOOKEEPER_VERSION = "3.9.2"
FIRST_BROKER_ID = 1001
MAX_BROKERS = 50
MAX_RACKS = 26
MAX_LOG_DIRS = 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_RACK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-[A-Za-z0-9.-]+)?")


class MetadataMode(StrEnum):
    """Who keeps the cluster's metadata."""

    KRAFT = "kraft"
    ZOOKEEPER = "zookeeper"


OLDEST = {MetadataMode.KRAFT: (3, 7), MetadataMode.ZOOKEEPER: (2, 4)}
"""The first releases that the sandbox starts; before 2.4 Kafka takes no moves by its own requests."""


class ClientSecurity(StrEnum):
    """What clients must do to get in; brokers talk to each other on a loopback listener of their own."""

    NONE = "none"
    TLS = "tls"
    SCRAM = "scram"
    SCRAM_TLS = "scram-tls"

    @property
    def uses_tls(self) -> bool:
        """True when the client listener is encrypted."""
        return self in (ClientSecurity.TLS, ClientSecurity.SCRAM_TLS)

    @property
    def uses_scram(self) -> bool:
        """True when clients send a name and a password."""
        return self in (ClientSecurity.SCRAM, ClientSecurity.SCRAM_TLS)


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
    mode: MetadataMode = MetadataMode.KRAFT
    secure: ClientSecurity = ClientSecurity.NONE
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
    mode: MetadataMode,
    secure: ClientSecurity,
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
    version = kafka or (ZOOKEEPER_VERSION if mode is MetadataMode.ZOOKEEPER else KRAFT_VERSION)
    matched = _VERSION.fullmatch(version)
    if not matched:
        raise UsageError(f"--kafka {version!r:.60} is not a Kafka version", hint=f"write it like {KRAFT_VERSION}")
    release = (int(matched[1]), int(matched[2]))
    if release < OLDEST[mode]:
        hint = (
            "use 2.4.0 or newer"
            if mode is MetadataMode.ZOOKEEPER
            else "use 3.7.0 or newer, or --mode zookeeper from 2.4.0"
        )
        raise UsageError(f"--kafka {version} is too old for the sandbox", hint=hint)
    if mode is MetadataMode.ZOOKEEPER and release >= (4, 0):
        raise UsageError(f"Kafka {version} has no ZooKeeper mode", hint=f"use --kafka {ZOOKEEPER_VERSION}")
    if mode is MetadataMode.ZOOKEEPER and secure is not ClientSecurity.NONE:
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


def continue_spec(spec: SandboxSpec, before: SandboxSpec) -> SandboxSpec:
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
    secured = "" if spec.secure is ClientSecurity.NONE else f", secured with {spec.secure}"
    return (
        f"Kafka {spec.kafka} ({spec.mode}), {count_of(spec.brokers, 'broker')}, {count_of(spec.racks, 'rack')}, "
        f"{_dirs_words(spec)}{secured}"
    )


def _dirs_words(spec: SandboxSpec) -> str:
    if len(set(spec.log_dirs)) == 1:
        return f"{count_of(spec.log_dirs[0], 'log dir')} each"
    return f"{', '.join(map(str, spec.log_dirs))} log dirs in turn"


HOST = "127.0.0.1"
CLIENT = "CLIENT"
INTERNAL = "INTERNAL"
CONTROLLER = "CONTROLLER"
ZOOKEEPER = "ZOOKEEPER"
CONTROLLER_ID = 1


class NodeRole(StrEnum):
    """What a process does."""

    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process: `ports` by listener name, `folder` and `log_dirs` as absolute paths."""

    id: int
    role: NodeRole
    folder: str
    ports: Mapping[str, int]
    rack: str | None = None
    log_dirs: tuple[str, ...] = ()
    directory_ids: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """How messages name it: `broker 1001`, `the controller`, `ZooKeeper`."""
        names = {NodeRole.CONTROLLER: "the controller", NodeRole.ZOOKEEPER: "ZooKeeper"}
        return names.get(self.role, f"broker {self.id}")

    @property
    def log_file(self) -> str:
        """Where the process's output goes."""
        return f"{self.folder}/output.log"

    @property
    def address(self) -> str:
        """`host:port` of the listener that others connect to."""
        listener = {NodeRole.BROKER: CLIENT, NodeRole.CONTROLLER: CONTROLLER, NodeRole.ZOOKEEPER: ZOOKEEPER}[self.role]
        return f"{HOST}:{self.ports[listener]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLayout:
    """All processes of a sandbox; `keeper` holds the metadata, `brokers` are sorted by id."""

    keeper: Node
    brokers: tuple[Node, ...] = field(default=())

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The keeper, then the brokers."""
        return (self.keeper, *self.brokers)

    @property
    def bootstrap_servers(self) -> str:
        """The client addresses of all brokers, separated by commas."""
        return ",".join(node.address for node in self.brokers)


def broker_listeners(spec: SandboxSpec) -> tuple[str, ...]:
    """Listener names of a broker: a secured cluster keeps broker traffic on a listener of its own."""
    return (CLIENT,) if spec.secure is ClientSecurity.NONE else (CLIENT, INTERNAL)


def ports_needed(spec: SandboxSpec) -> int:
    """How many free ports `lay_out` wants: one for the keeper, one or two a broker."""
    return 1 + spec.brokers * len(broker_listeners(spec))


def directories_needed(spec: SandboxSpec) -> int:
    """How many directory ids `lay_out` wants: one a log dir."""
    return sum(spec.log_dirs_of(index) for index in range(spec.brokers))


def lay_out(spec: SandboxSpec, root: str, ports: Sequence[int], directory_ids: Sequence[str]) -> SandboxLayout:
    """Place every process under `root`.

    `ports` holds `ports_needed(spec)` distinct ports, `directory_ids` holds `directories_needed(spec)`
    Kafka uuids (see KIP-858: each log dir of a KRaft broker has one).
    """
    port = iter(ports)
    directory = iter(directory_ids)
    if spec.mode is MetadataMode.ZOOKEEPER:
        keeper = Node(id=0, role=NodeRole.ZOOKEEPER, folder=f"{root}/zookeeper", ports={ZOOKEEPER: next(port)})
    else:
        folder = f"{root}/controller"
        keeper = Node(
            id=CONTROLLER_ID,
            role=NodeRole.CONTROLLER,
            folder=folder,
            ports={CONTROLLER: next(port)},
            log_dirs=(f"{folder}/metadata",),
        )
    brokers = [broker_node(spec, root, index, port, directory) for index in range(spec.brokers)]
    return SandboxLayout(keeper=keeper, brokers=tuple(brokers))


def broker_node(spec: SandboxSpec, root: str, index: int, ports: Iterator[int], directory_ids: Iterator[str]) -> Node:
    """The broker of that index (0 is the first); takes what it needs from the free ports and directory ids."""
    node_id = FIRST_BROKER_ID + index
    folder = f"{root}/broker-{node_id}"
    return Node(
        id=node_id,
        role=NodeRole.BROKER,
        folder=folder,
        ports={name: next(ports) for name in broker_listeners(spec)},
        rack=spec.rack(index),
        log_dirs=tuple(f"{folder}/data-{number}" for number in range(spec.log_dirs_of(index))),
        directory_ids=tuple(next(directory_ids) for _ in range(spec.log_dirs_of(index))),
    )


STATE_KIND = "sandbox-state"


class Phase(StrEnum):
    """`starting` until every broker answered; a record left in that phase belongs to an `up` that died."""

    STARTING = "starting"
    UP = "up"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node and the process that was started for it, if any."""

    node: Node
    process: ProcessRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """A node as it is now: `state` is `dead`, `running`, or what the cluster reports of a live broker."""

    node: Node
    pid: int | None
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxState:
    """The state file; `nodes` starts with the keeper, then brokers by id."""

    spec: SandboxSpec
    phase: Phase
    cluster_id: str
    java: str
    nodes: tuple[NodeRecord, ...]

    @property
    def layout(self) -> SandboxLayout:
        """The layout the nodes were started with."""
        return SandboxLayout(keeper=self.nodes[0].node, brokers=tuple(record.node for record in self.nodes[1:]))

    def broker(self, broker_id: int) -> NodeRecord | None:
        """The record of a broker, or None when the sandbox has no such broker."""
        return next((record for record in self.nodes[1:] if record.node.id == broker_id), None)

    def with_process(self, node: Node, process: ProcessRecord | None) -> "SandboxState":
        """The state after a node's process was started (or forgotten, with None)."""
        nodes = tuple(replace(r, process=process) if r.node.folder == node.folder else r for r in self.nodes)
        return replace(self, nodes=nodes)


def new_state(spec: SandboxSpec, layout: SandboxLayout, cluster_id: str, java: str) -> SandboxState:
    """The state before anything was started."""
    nodes = tuple(NodeRecord(node=node) for node in layout.nodes)
    return SandboxState(spec=spec, phase=Phase.STARTING, cluster_id=cluster_id, java=java, nodes=nodes)


def encode_state(state: SandboxState) -> bytes:
    """The state file's bytes."""
    return encode_document(STATE_KIND, state)


def decode_state(data: bytes, source: str) -> SandboxState:
    """Read a state file; raises `InputError` when it is not one."""
    state = decode_document(data, STATE_KIND, SandboxState, source)
    if not state.nodes:
        raise InputError(source, "names no nodes")
    return state
