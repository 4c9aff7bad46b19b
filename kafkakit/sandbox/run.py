"""Bring a sandbox up and down, and look at it: real Kafka processes on this machine."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafkakit.errors import InputError, KafkakitError, RefusedError, TryLaterError, UsageError
from kafkakit.model import Broker
from kafkakit.sandbox import jvm
from kafkakit.sandbox.connection import profile_name, profile_tree, profile_users, render_profile
from kafkakit.sandbox.credentials import (
    ADMIN,
    CLIENT_USERS,
    Passwords,
    client_security,
    password_file,
    secrets_folder,
)
from kafkakit.sandbox.layout import Layout, Node, Role, directories_needed, lay_out, ports_needed
from kafkakit.sandbox.machine import Machine, NodeFailedError, OldSessionError, PortTakenError, Reporter
from kafkakit.sandbox.properties import (
    broker_properties,
    controller_properties,
    meta_properties,
    render_properties,
    zookeeper_properties,
)
from kafkakit.sandbox.spec import SandboxSpec
from kafkakit.sandbox.state import NodeRecord, Phase, ProcessRecord, SandboxState, new_state
from kafkakit.sandbox.store import Store
from kafkakit.security import Secret, Security

START_LIMIT_S = 120.0
_PORT_ATTEMPTS = 3
_POLL_S = 0.1
_FORMAT_LIMIT_S = 60.0
_OLD_SESSION_LIMIT_S = 20.0
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


def up(machine: Machine, store: Store, spec: SandboxSpec, reporter: Reporter) -> tuple[SandboxState, bool]:
    """Start the sandbox and wait until every broker is registered and unfenced.

    Returns the state and whether anything was started: one that runs already is left as it is. On any
    failure, and on Ctrl-C, what was started is stopped. Cost: about 6 s for 3 brokers with cached jars.
    """
    with store.locked():
        running = _already_up(machine, store, spec)
        if running is not None:
            return running, False
        java = machine.find_java()
        class_path = machine.jars.class_path(spec.kafka, reporter.say)
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                return _start(machine, store, spec, java.path, class_path, reporter), True
            except PortTakenError as error:
                if attempt == _PORT_ATTEMPTS:
                    raise
                reporter.say(f"{error.message}; starting again with other ports")
        raise AssertionError("unreachable")


def _already_up(machine: Machine, store: Store, spec: SandboxSpec) -> SandboxState | None:
    """The state when all of it runs; None when nothing does. Raises when only a part runs, or another shape."""
    state = store.load()
    if state is None:
        return None
    dead = [record for record in state.nodes if not _is_alive(machine, record)]
    if state.phase is Phase.STARTING or len(dead) == len(state.nodes):
        _remove(machine, store, state)
        return None
    if state.spec != spec:
        raise RefusedError(
            f"sandbox {spec.name} runs already, with {describe(state.spec)}",
            hint=f"kafkakit sandbox down --name {spec.name}",
        )
    if dead:
        raise NodeFailedError(
            f"sandbox {spec.name} runs, but not whole: {', '.join(record.node.label for record in dead)} is dead",
            hint=_revival_hint(spec.name, dead),
        )
    return state


def _revival_hint(name: str, dead: Sequence[NodeRecord]) -> str:
    if any(record.node.role is not Role.BROKER for record in dead):
        return f"kafkakit sandbox down --name {name}"
    return f"kafkakit sandbox restart {dead[0].node.id} --name {name}"


def describe(spec: SandboxSpec) -> str:
    """A sandbox's shape in words."""
    secured = "" if spec.secure.value == "none" else f", secured with {spec.secure}"
    return (
        f"Kafka {spec.kafka} ({spec.mode}), {spec.brokers} brokers, {spec.racks} racks, "
        f"{spec.log_dirs} log dirs each{secured}"
    )


def _start(
    machine: Machine, store: Store, spec: SandboxSpec, java: str, class_path: Sequence[str], reporter: Reporter
) -> SandboxState:
    root = str(store.root)
    ports = machine.processes.free_ports(ports_needed(spec))
    directories = [kafka_uuid(machine.random_bytes) for _ in range(directories_needed(spec))]
    layout = lay_out(spec, root, ports, directories)
    state = new_state(spec, layout, kafka_uuid(machine.random_bytes), java)
    store.make_root()
    try:
        store.save(state)
        passwords = _write_secrets(machine, store, spec, layout)
        _write_nodes(store, state, class_path, passwords)
        state = _start_processes(machine, store, state, class_path, passwords)
        state = wait_until_up(machine, store, state, tuple(r.node.id for r in state.nodes[1:]), reporter)
        state = replace(state, phase=Phase.UP, cluster_id=_cluster_id(machine, store, state))
        for user in profile_users(spec.secure):
            text = render_profile(profile_tree(state, root, user), spec.name)
            store.write_profile(profile_name(spec.name, user), text)
        store.save(state)
    except BaseException:
        # Whatever went wrong, Ctrl-C included: nothing stays running; the logs stay for a look.
        ours = f"{jvm.MARKER}{root}/"
        machine.processes.kill([record for record in machine.processes.started() if record.marker.startswith(ours)])
        store.state_file.unlink(missing_ok=True)
        _remove_profiles(store, spec.name)
        raise
    return state


def kafka_uuid(random_bytes: Callable[[int], bytes]) -> str:
    """A Kafka uuid: 16 bytes in URL-safe base64 that do not start with a dash (it would look like an option)."""
    while (text := base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")).startswith("-"):
        continue
    return text


def _write_secrets(machine: Machine, store: Store, spec: SandboxSpec, layout: Layout) -> Passwords | None:
    if spec.secure.value == "none":
        return None
    root = str(store.root)
    store.make_folder(secrets_folder(root))
    passwords = Passwords(**{user: Secret(machine.random_bytes(18).hex()) for user in (*CLIENT_USERS, "broker")})
    if spec.secure.uses_scram:
        for user in CLIENT_USERS:
            store.write(password_file(root, user), passwords.of(user).reveal() + "\n")
    if spec.secure.uses_tls:
        users = () if spec.secure.uses_scram else CLIENT_USERS
        made = machine.certificates.make([f"broker-{node.id}" for node in layout.brokers], users)
        for name, data in made.items():
            store.write(f"{secrets_folder(root)}/{name}", data)
    return passwords


def _write_nodes(store: Store, state: SandboxState, class_path: Sequence[str], passwords: Passwords | None) -> None:
    """Write each node's folder: configuration, argument file and, for KRaft brokers, formatted log dirs."""
    layout = state.layout
    for node in layout.nodes:
        store.make_folder(node.folder)
        store.write(jvm.argument_file(node), jvm.node_arguments(node, class_path))
        store.write(jvm.properties_file(node), render_properties(_settings(state, layout, node, store, passwords)))
        for directory in node.log_dirs:
            store.make_folder(directory)
        for directory, directory_id in zip(node.log_dirs, node.directory_ids, strict=False):
            if layout.keeper.role is Role.CONTROLLER:
                text = render_properties(meta_properties(state.cluster_id, node.id, directory_id))
                store.write(f"{directory}/meta.properties", text)


def _settings(
    state: SandboxState, layout: Layout, node: Node, store: Store, passwords: Passwords | None
) -> dict[str, str]:
    if node.role is Role.ZOOKEEPER:
        return zookeeper_properties(layout)
    if node.role is Role.CONTROLLER:
        return controller_properties(state.spec, layout, passwords)
    return broker_properties(state.spec, layout, node, str(store.root), passwords)


def _start_processes(
    machine: Machine, store: Store, state: SandboxState, class_path: Sequence[str], passwords: Passwords | None
) -> SandboxState:
    """Start brokers first: they wait for the controller, which needs formatting before it can start."""
    layout = state.layout
    if layout.keeper.role is Role.ZOOKEEPER:
        order: tuple[Node, ...] = layout.nodes
    else:
        order = (*layout.brokers, layout.keeper)
    for node in order:
        if node.role is Role.CONTROLLER:
            _format(machine, store, state, class_path, passwords)
        state = start_node(machine, store, state, node)
    return state


def start_node(machine: Machine, store: Store, state: SandboxState, node: Node) -> SandboxState:
    """Record one process and start it."""

    def remember(process: ProcessRecord) -> None:
        store.save(state.with_process(node, process))

    record = machine.processes.start(jvm.command(state.java, node), node.log_file, remember)
    return state.with_process(node, record)


def _format(
    machine: Machine, store: Store, state: SandboxState, class_path: Sequence[str], passwords: Passwords | None
) -> None:
    """Run Kafka's storage tool on the controller's metadata dir."""
    node = state.layout.keeper
    users: dict[str, str] = {}
    if passwords is not None and state.spec.secure.uses_scram:
        users = {user: passwords.of(user).reveal() for user in CLIENT_USERS}
    path = f"{node.folder}/format.args"
    store.write(path, jvm.format_arguments(node, state.cluster_id, class_path, users))
    log = f"{node.folder}/format.log"

    def remember(process: ProcessRecord) -> None:
        store.save(state.with_process(node, process))

    record = machine.processes.start((state.java, jvm.marker(node), f"@{path}"), log, remember)
    status = machine.processes.wait(record, _FORMAT_LIMIT_S)
    if status != 0:
        raise NodeFailedError(f"Kafka's storage tool ended with status {status}", tail=store.tail(log))


def wait_until_up(
    machine: Machine, store: Store, state: SandboxState, broker_ids: Sequence[int], reporter: Reporter
) -> SandboxState:
    """Wait until the named brokers are registered and unfenced; raises `NodeFailedError` when one exits."""
    wanted = [record for record in state.nodes if record.node.id in broker_ids and record.node.role is Role.BROKER]
    end = machine.clock.monotonic() + START_LIMIT_S
    security = admin_security(state, store)
    while machine.clock.monotonic() < end:
        for record in (state.nodes[0], *wanted):
            if not _is_alive(machine, record):
                raise _exited(store, record.node)
        open_now = sum(machine.processes.answers(_client_port(record.node)) for record in wanted)
        reporter.update(open_now, len(wanted), "brokers listen")
        if open_now == len(wanted) and _unfenced(machine, wanted, security) >= {r.node.id for r in wanted}:
            return state
        machine.clock.sleep(_POLL_S)
    late = next((r.node for r in wanted if not machine.processes.answers(_client_port(r.node))), wanted[0].node)
    raise NodeFailedError(
        f"sandbox {state.spec.name} was not ready after {START_LIMIT_S:.0f} s: {late.label} is late",
        tail=store.tail(late.log_file),
    )


def _client_port(node: Node) -> int:
    return int(node.address.rsplit(":", 1)[1])


def _unfenced(machine: Machine, wanted: Sequence[NodeRecord], security: Security) -> set[int]:
    """The brokers that the wanted ones call alive; empty while none of them answers.

    Others must not be asked: for a while they still call a broker alive that was killed a moment ago.
    """
    servers = ",".join(record.node.address for record in wanted)
    return {broker.id for broker in _brokers_seen(machine, servers, security) if broker.is_alive}


def _brokers_seen(machine: Machine, servers: str, security: Security) -> tuple[Broker, ...]:
    """What the cluster says of its brokers; empty when it does not answer."""
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


def _cluster_id(machine: Machine, store: Store, state: SandboxState) -> str:
    """The id that the cluster goes by: in ZooKeeper mode the first broker makes it up."""
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


def _is_alive(machine: Machine, record: NodeRecord) -> bool:
    return record.process is not None and machine.processes.is_alive(record.process)


def _stop(machine: Machine, state: SandboxState) -> int:
    """SIGKILL every process of ours: the data is thrown away, so a clean end would only cost time."""
    records = [record.process for record in state.nodes if record.process is not None]
    return len(machine.processes.kill(records))


def _remove(machine: Machine, store: Store, state: SandboxState) -> int:
    stopped = _stop(machine, state)
    _remove_profiles(store, state.spec.name)
    store.remove_root()
    return stopped


def _remove_profiles(store: Store, name: str) -> None:
    for user in CLIENT_USERS:
        store.remove_profile(profile_name(name, user))


def down(machine: Machine, store: Store) -> int | None:
    """Stop the sandbox's processes and delete all it has; returns how many were stopped, None without one."""
    with store.locked():
        state = store.load()
        if state is None:
            store.remove_root()
            return None
        return _remove(machine, store, state)


def loaded(store: Store) -> SandboxState:
    """The state of a sandbox that must be there; raises `UsageError` otherwise."""
    state = store.load()
    if state is None:
        raise UsageError(f"there is no sandbox {store.root.name}", hint=f"kafkakit sandbox up --name {store.root.name}")
    if state.phase is Phase.STARTING:
        raise TryLaterError(
            f"sandbox {store.root.name} is not up", hint=f"kafkakit sandbox up --name {store.root.name}"
        )
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A node as it is now: `state` is `dead`, `running`, or what the cluster says of a live broker."""

    node: Node
    pid: int | None
    state: str


def look(machine: Machine, store: Store, state: SandboxState) -> tuple[NodeSeen, ...]:
    """Look at every process, and ask the cluster about its brokers (at most 5 s when it does not answer)."""
    brokers = _brokers_seen(machine, state.layout.bootstrap_servers, admin_security(state, store))
    told = {broker.id: broker.state for broker in brokers}
    seen = []
    for record in state.nodes:
        alive = _is_alive(machine, record)
        word = "running" if alive else "dead"
        if alive and record.node.role is Role.BROKER:
            word = str(told.get(record.node.id, "unregistered"))
        pid = record.process.pid if alive and record.process else None
        seen.append(NodeSeen(node=record.node, pid=pid, state=word))
    return tuple(seen)


def kill(machine: Machine, store: Store, broker_id: int) -> bool:
    """SIGKILL a broker; returns False when it was dead already."""
    with store.locked():
        record = _broker(loaded(store), broker_id)
        return record.process is not None and bool(machine.processes.kill([record.process]))


def restart(machine: Machine, store: Store, broker_id: int, reporter: Reporter) -> SandboxState:
    """Start a dead broker, or stop and start a live one; waits until it is registered and unfenced."""
    with store.locked():
        state = loaded(store)
        record = _broker(state, broker_id)
        if record.process is not None:
            # A clean stop lets the broker say goodbye, so that it need not wait for its old session.
            machine.processes.kill([record.process], graceful_s=10)
        end = machine.clock.monotonic() + _OLD_SESSION_LIMIT_S
        while True:
            store.set_aside(record.node.log_file)
            state = start_node(machine, store, state, record.node)
            try:
                return wait_until_up(machine, store, state, (broker_id,), reporter)
            except OldSessionError:
                if machine.clock.monotonic() > end:
                    raise
                reporter.say(f"ZooKeeper still holds the old session of broker {broker_id}; starting it again")


def _broker(state: SandboxState, broker_id: int) -> NodeRecord:
    record = state.broker(broker_id)
    if record is None:
        ids = ", ".join(str(r.node.id) for r in state.nodes[1:])
        raise UsageError(f"sandbox {state.spec.name} has no broker {broker_id}", hint=f"its brokers are {ids}")
    return record
