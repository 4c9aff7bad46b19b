"""The record of a running sandbox: what was started, and how to recognise each process."""

from dataclasses import dataclass, replace
from enum import StrEnum

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError
from kafkakit.core.programs import ProcessRecord
from kafkakit.sandbox.decide.layout import Layout, Node
from kafkakit.sandbox.decide.spec import SandboxSpec

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
    def layout(self) -> Layout:
        """The layout the nodes were started with."""
        return Layout(keeper=self.nodes[0].node, brokers=tuple(record.node for record in self.nodes[1:]))

    def broker(self, broker_id: int) -> NodeRecord | None:
        """The record of a broker, or None when the sandbox has no such broker."""
        return next((record for record in self.nodes[1:] if record.node.id == broker_id), None)

    def with_process(self, node: Node, process: ProcessRecord | None) -> "SandboxState":
        """The state after a node's process was started (or forgotten, with None)."""
        nodes = tuple(replace(r, process=process) if r.node.folder == node.folder else r for r in self.nodes)
        return replace(self, nodes=nodes)


def new_state(spec: SandboxSpec, layout: Layout, cluster_id: str, java: str) -> SandboxState:
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
