"""Which processes a sandbox has: ids, racks, ports and folders."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.sandbox.decide.spec import FIRST_BROKER_ID, Mode, SandboxSpec, Secure

HOST = "127.0.0.1"
CLIENT = "CLIENT"
INTERNAL = "INTERNAL"
CONTROLLER = "CONTROLLER"
ZOOKEEPER = "ZOOKEEPER"
CONTROLLER_ID = 1


class Role(StrEnum):
    """What a process does."""

    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process: `ports` by listener name, `folder` and `log_dirs` as absolute paths."""

    id: int
    role: Role
    folder: str
    ports: Mapping[str, int]
    rack: str | None = None
    log_dirs: tuple[str, ...] = ()
    directory_ids: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """How messages name it: `broker 1001`, `the controller`, `ZooKeeper`."""
        names = {Role.CONTROLLER: "the controller", Role.ZOOKEEPER: "ZooKeeper"}
        return names.get(self.role, f"broker {self.id}")

    @property
    def log_file(self) -> str:
        """Where the process's output goes."""
        return f"{self.folder}/output.log"

    @property
    def address(self) -> str:
        """`host:port` of the listener that others connect to."""
        listener = {Role.BROKER: CLIENT, Role.CONTROLLER: CONTROLLER, Role.ZOOKEEPER: ZOOKEEPER}[self.role]
        return f"{HOST}:{self.ports[listener]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
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
    return (CLIENT,) if spec.secure is Secure.NONE else (CLIENT, INTERNAL)


def ports_needed(spec: SandboxSpec) -> int:
    """How many free ports `lay_out` wants: one for the keeper, one or two a broker."""
    return 1 + spec.brokers * len(broker_listeners(spec))


def directories_needed(spec: SandboxSpec) -> int:
    """How many directory ids `lay_out` wants: one a log dir."""
    return sum(spec.log_dirs_of(index) for index in range(spec.brokers))


def lay_out(spec: SandboxSpec, root: str, ports: Sequence[int], directory_ids: Sequence[str]) -> Layout:
    """Place every process under `root`.

    `ports` holds `ports_needed(spec)` distinct ports, `directory_ids` holds `directories_needed(spec)`
    Kafka uuids (see KIP-858: each log dir of a KRaft broker has one).
    """
    port = iter(ports)
    directory = iter(directory_ids)
    if spec.mode is Mode.ZOOKEEPER:
        keeper = Node(id=0, role=Role.ZOOKEEPER, folder=f"{root}/zookeeper", ports={ZOOKEEPER: next(port)})
    else:
        folder = f"{root}/controller"
        keeper = Node(
            id=CONTROLLER_ID,
            role=Role.CONTROLLER,
            folder=folder,
            ports={CONTROLLER: next(port)},
            log_dirs=(f"{folder}/metadata",),
        )
    brokers = [broker_node(spec, root, index, port, directory) for index in range(spec.brokers)]
    return Layout(keeper=keeper, brokers=tuple(brokers))


def broker_node(spec: SandboxSpec, root: str, index: int, ports: Iterator[int], directory_ids: Iterator[str]) -> Node:
    """The broker of that index (0 is the first); takes what it needs from the free ports and directory ids."""
    node_id = FIRST_BROKER_ID + index
    folder = f"{root}/broker-{node_id}"
    return Node(
        id=node_id,
        role=Role.BROKER,
        folder=folder,
        ports={name: next(ports) for name in broker_listeners(spec)},
        rack=spec.rack(index),
        log_dirs=tuple(f"{folder}/data-{number}" for number in range(spec.log_dirs_of(index))),
        directory_ids=tuple(next(directory_ids) for _ in range(spec.log_dirs_of(index))),
    )
