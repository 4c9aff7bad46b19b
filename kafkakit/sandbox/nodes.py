"""Write what a sandbox's processes need, and start them."""

from kafkakit.config.security import Secret
from kafkakit.core.programs import ProcessRecord
from kafkakit.ports.machine import Machine, NodeFailedError
from kafkakit.sandbox.decide import jvm
from kafkakit.sandbox.decide.credentials import CLIENT_USERS, Passwords, password_file, secrets_folder
from kafkakit.sandbox.decide.layout import Layout, Node, Role
from kafkakit.sandbox.decide.properties import (
    broker_properties,
    controller_properties,
    meta_properties,
    render_properties,
    zookeeper_properties,
)
from kafkakit.sandbox.decide.spec import SandboxSpec, Secure
from kafkakit.sandbox.decide.state import SandboxState
from kafkakit.sandbox.folders import Store

_FORMAT_LIMIT_S = 300.0


def write_secrets(machine: Machine, store: Store, spec: SandboxSpec, layout: Layout) -> Passwords | None:
    """Make passwords, keys and certificates as the mode needs them; None for an open cluster."""
    if spec.secure is Secure.NONE:
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


def write_nodes(store: Store, state: SandboxState, launch: jvm.Launch, passwords: Passwords | None) -> None:
    """Write each node's folder: configuration, argument file and, for KRaft brokers, formatted log dirs."""
    layout = state.layout
    for node in layout.nodes:
        store.make_folder(node.folder)
        store.write(jvm.argument_file(node), jvm.node_arguments(node, launch))
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


def start_processes(
    machine: Machine, store: Store, state: SandboxState, launch: jvm.Launch, passwords: Passwords | None
) -> SandboxState:
    """Start the keeper first: a broker without a controller asks for it all the time, a quarter of its start."""
    for node in state.layout.nodes:
        if node.role is Role.CONTROLLER:
            _format(machine, store, state, launch, passwords)
        state = start_node(machine, store, state, node)
    return state


def start_node(machine: Machine, store: Store, state: SandboxState, node: Node) -> SandboxState:
    """Record one process and start it."""

    def remember(process: ProcessRecord) -> None:
        store.save(state.with_process(node, process))

    record = machine.processes.start(jvm.command(state.java, node), node.log_file, remember)
    return state.with_process(node, record)


def _format(
    machine: Machine, store: Store, state: SandboxState, launch: jvm.Launch, passwords: Passwords | None
) -> None:
    """Run Kafka's storage tool on the controller's metadata dir."""
    node = state.layout.keeper
    users: dict[str, str] = {}
    if passwords is not None and state.spec.secure.uses_scram:
        users = {user: passwords.of(user).reveal() for user in CLIENT_USERS}
    path = f"{node.folder}/format.args"
    store.write(path, jvm.format_arguments(node, state.cluster_id, launch, users))
    log = f"{node.folder}/format.log"

    def remember(process: ProcessRecord) -> None:
        store.save(state.with_process(node, process))

    record = machine.processes.start((state.java, jvm.marker(node), f"@{path}"), log, remember)
    status = machine.processes.wait(record, _FORMAT_LIMIT_S)
    store.remove(path)
    if status != 0:
        raise NodeFailedError(f"Kafka's storage tool ended with status {status}", tail=store.tail(log))
