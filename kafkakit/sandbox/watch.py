"""Look at a sandbox's processes and at what the cluster reports of its brokers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafkakit.config.security import Secret, Security
from kafkakit.core.errors import InputError, KafkakitError
from kafkakit.core.model import Broker
from kafkakit.ports.acting import ProgressBar, Reporter
from kafkakit.ports.machine import Machine, NodeFailedError, OldSessionError, PortTakenError
from kafkakit.sandbox.decide.credentials import ADMIN, client_security, password_file
from kafkakit.sandbox.decide.layout import Node, Role
from kafkakit.sandbox.decide.state import NodeRecord, NodeStatus, SandboxState
from kafkakit.sandbox.folders import Store

START_LIMIT_S = 300.0
_POLL_S = 0.1
_OLD_SESSION = "NodeExistsException"
_TAKEN = ("Address already in use", "BindException")


def admin_security(state: SandboxState, store: Store) -> Security:
    """How the administrator connects to a sandbox that runs."""
    secret = None
    if state.spec.secure.uses_scram:
        path = password_file(str(store.root), ADMIN)
        try:
            with open(path, encoding="utf-8") as file:
                secret = Secret(file.read().strip())
        except OSError as error:
            raise InputError(path, f"cannot be read: {error.strerror}") from None
    return client_security(state.spec.secure, str(store.root), ADMIN, secret)


def wait_until_up(
    machine: Machine, store: Store, state: SandboxState, broker_ids: Sequence[int], progress: ProgressBar
) -> SandboxState:
    """Wait until the named brokers are registered and unfenced; raises `NodeFailedError` when one exits."""
    wanted = [record for record in state.nodes if record.node.id in broker_ids and record.node.role is Role.BROKER]
    end = machine.clock.monotonic() + START_LIMIT_S
    security = admin_security(state, store)
    while machine.clock.monotonic() < end:
        for record in (state.nodes[0], *wanted):
            if not is_alive(machine, record):
                raise _exited(store, record.node)
        open_now = sum(machine.processes.answers(_client_port(record.node)) for record in wanted)
        progress.update(open_now, len(wanted), "brokers listen")
        if open_now == len(wanted) and _unfenced(machine, wanted, security) >= {r.node.id for r in wanted}:
            return state
        machine.clock.sleep(_POLL_S)
    late = next((r.node for r in wanted if not machine.processes.answers(_client_port(r.node))), wanted[0].node)
    raise NodeFailedError(
        f"sandbox {state.spec.name} was not ready after {START_LIMIT_S:.0f} s: {late.label} is late",
        tail=store.tail(late.log_file),
    )


@contextmanager
def log_tails_printed(reporter: Reporter) -> Iterator[None]:
    """Print the last lines of the log of a process that failed, before its error continues."""
    try:
        yield
    except NodeFailedError as error:
        for line in error.tail:
            reporter.say(f"  {line}")
        raise


def _client_port(node: Node) -> int:
    return int(node.address.rsplit(":", 1)[1])


def _unfenced(machine: Machine, wanted: Sequence[NodeRecord], security: Security) -> set[int]:
    """The brokers that the wanted ones report as alive; empty while none of them answers.

    Other brokers are not asked: for a while they still report a broker as alive that was killed a moment ago.
    """
    servers = ",".join(record.node.address for record in wanted)
    return {broker.id for broker in brokers_seen(machine, servers, security) if broker.is_alive}


def brokers_seen(machine: Machine, servers: str, security: Security) -> tuple[Broker, ...]:
    """What the cluster reports of its brokers; empty when it does not answer."""
    try:
        admin = machine.open_admin(servers, security)
    except KafkakitError:
        return ()
    try:
        return admin.cluster().brokers
    except KafkakitError:
        return ()
    finally:
        admin.close()


def live_cluster_id(machine: Machine, store: Store, state: SandboxState) -> str:
    """The id of the live cluster: in ZooKeeper mode the first broker creates it."""
    admin = machine.open_admin(state.layout.bootstrap_servers, admin_security(state, store))
    try:
        return admin.cluster().cluster_id
    finally:
        admin.close()


def _exited(store: Store, node: Node) -> NodeFailedError:
    tail = store.tail(node.log_file)
    lines = store.tail(node.log_file, 200)
    if any(_OLD_SESSION in line for line in lines):
        return OldSessionError(f"{node.label} is still registered with its old session", tail=tail)
    if any(sign in line for line in lines for sign in _TAKEN):
        ports = ", ".join(str(port) for port in node.ports.values())
        return PortTakenError(f"{node.label} found its port taken ({ports})", tail=tail)
    return NodeFailedError(f"{node.label} exited", tail=tail, hint=f"its log is {node.log_file}")


def is_alive(machine: Machine, record: NodeRecord) -> bool:
    """True when the node has a process, and it is ours and runs."""
    return record.process is not None and machine.processes.is_alive(record.process)


def node_statuses(machine: Machine, store: Store, state: SandboxState) -> tuple[NodeStatus, ...]:
    """The status of every process, and of brokers as the cluster reports them (at most 5 s without an answer)."""
    brokers = brokers_seen(machine, state.layout.bootstrap_servers, admin_security(state, store))
    reported = {broker.id: broker.state for broker in brokers}
    found = []
    for record in state.nodes:
        alive = is_alive(machine, record)
        word = "running" if alive else "dead"
        if alive and record.node.role is Role.BROKER:
            word = str(reported.get(record.node.id, "unregistered"))
        pid = record.process.pid if alive and record.process else None
        found.append(NodeStatus(node=record.node, pid=pid, state=word))
    return tuple(found)
