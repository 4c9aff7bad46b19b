"""Bring a sandbox up and down, add brokers to it, and look at it: real Kafka processes on this machine.

What the processes need is written for them, and private; what the cluster reports of its brokers decides when a start
is over. Brokers are added to a running sandbox as an operator brings in a replacement.

Processes start from class archives (the JVM's class data sharing) in little more than half the time. The first sandbox
of a Kafka version and a Java records which classes its processes load; once it is up, the JVM writes an archive of them
into the cache. An archive is never needed: a JVM that cannot use it starts without it.
"""

import base64
import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kafkakit.config.security import Secret, Security
from kafkakit.core.errors import InputError, KafkakitError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import Broker
from kafkakit.core.programs import ProcessRecord
from kafkakit.core.text import shell_command
from kafkakit.ports.acting import ProgressBar, Reporter, repeat_every
from kafkakit.ports.services import Machine, NodeFailedError, OldSessionError, PortTakenError
from kafkakit.sandbox.decide import processes
from kafkakit.sandbox.decide.processes import (
    ADMIN,
    CLIENT_USERS,
    Passwords,
    broker_properties,
    client_security,
    controller_properties,
    meta_properties,
    password_file,
    profile_head,
    profile_name,
    profile_tree,
    profile_users,
    render_profile,
    render_properties,
    secrets_folder,
    zookeeper_properties,
)
from kafkakit.sandbox.decide.spec import (
    ClientSecurity,
    Node,
    NodeRecord,
    NodeRole,
    NodeStatus,
    Phase,
    SandboxLayout,
    SandboxSpec,
    SandboxState,
    broker_listeners,
    broker_node,
    continue_spec,
    describe,
    directories_needed,
    lay_out,
    new_state,
    ports_needed,
)
from kafkakit.sandbox.folders import Store

__all__ = [
    "admin_security",
    "kafka_uuid",
    "kill",
    "load_state",
    "restart",
    "start_node",
    "start_sandbox",
    "stop_sandbox",
    "wait_until_up",
]

_PORT_ATTEMPTS = 3
_OLD_SESSION_LIMIT_S = 60.0


def start_sandbox(machine: Machine, store: Store, spec: SandboxSpec, reporter: Reporter) -> tuple[SandboxState, bool]:
    """Start the sandbox and wait until every broker is registered and unfenced.

    Returns the state and whether anything was started: one that runs already is left as it is. On any
    failure, and on Ctrl-C, what was started is stopped. Cost: about 6 s for 3 brokers with cached jars.
    """
    with log_tails_printed(reporter), store.locked():
        running = _already_up(machine, store, spec, reporter)
        if running is not None:
            return running, False
        _refuse_foreign_profiles(store, spec)
        with reporter.progress(f"starting {describe(spec)}") as progress:
            java = machine.find_java()
            launch = find_launch(machine, spec.kafka, java.path, machine.jars.class_path(spec.kafka, reporter.say))
            for attempt in range(1, _PORT_ATTEMPTS + 1):
                try:
                    return _start(machine, store, spec, launch, reporter, progress), True
                except PortTakenError as error:
                    if attempt == _PORT_ATTEMPTS:
                        raise
                    reporter.say(f"{error.message}; starting again with other ports")
        raise AssertionError("unreachable")


def _refuse_foreign_profiles(store: Store, spec: SandboxSpec) -> None:
    """A profile that a person or another sandbox wrote is never replaced."""
    for user in profile_users(spec.secure):
        profile = profile_name(spec.name, user)
        if not store.owns_profile(profile, profile_head(spec.name)):
            raise RefusedError(
                f"{store.profile_file(profile)} is a profile that sandbox {spec.name} did not write",
                hint="choose another --name, or move the file away",
            )


def write_profiles(store: Store, state: SandboxState) -> None:
    """Write a profile for each user, with the addresses of all brokers."""
    name = state.spec.name
    for user in profile_users(state.spec.secure):
        store.write_profile(profile_name(name, user), render_profile(profile_tree(state, str(store.root), user), name))


def _already_up(machine: Machine, store: Store, spec: SandboxSpec, reporter: Reporter) -> SandboxState | None:
    """The state when all of it runs; None when nothing does. Raises when only a part runs, or another shape."""
    state = store.load()
    if state is None:
        return None
    dead = [record for record in state.nodes if not is_alive(machine, record)]
    if state.phase is Phase.STARTING or len(dead) == len(state.nodes):
        reporter.say(f"no process of the earlier sandbox {spec.name} is left; starting again, without its data")
        _remove(machine, store, state)
        return None
    if state.spec != continue_spec(spec, state.spec):
        raise RefusedError(
            f"sandbox {spec.name} runs already, with {describe(state.spec)}",
            hint=str(shell_command("sandbox down", name=spec.name)),
        )
    if dead:
        raise NodeFailedError(
            f"sandbox {spec.name} runs incompletely: {', '.join(record.node.label for record in dead)} is dead",
            hint=_revival_hint(spec.name, dead),
        )
    return state


def _revival_hint(name: str, dead: Sequence[NodeRecord]) -> str:
    if any(record.node.role is not NodeRole.BROKER for record in dead):
        return str(shell_command("sandbox down", name=name))
    return str(shell_command("sandbox restart", str(dead[0].node.id), name=name))


def _start(
    machine: Machine,
    store: Store,
    spec: SandboxSpec,
    launch: processes.JavaLaunch,
    reporter: Reporter,
    progress: ProgressBar,
) -> SandboxState:
    root = str(store.root)
    ports = machine.processes.free_ports(ports_needed(spec))
    directories = [kafka_uuid(machine.random_bytes) for _ in range(directories_needed(spec))]
    layout = lay_out(spec, root, ports, directories)
    state = new_state(spec, layout, kafka_uuid(machine.random_bytes), launch.java)
    store.make_root()
    try:
        store.save(state)
        passwords = write_secrets(machine, store, spec, layout)
        write_nodes(store, state, launch, passwords)
        state = start_processes(machine, store, state, launch, passwords)
        state = wait_until_up(machine, store, state, tuple(r.node.id for r in state.nodes[1:]), progress)
        state = replace(state, phase=Phase.UP, cluster_id=live_cluster_id(machine, store, state))
        write_profiles(store, state)
        store.save(state)
        build_class_archive(machine, store, state, launch, reporter)
    except BaseException:
        # After any failure, Ctrl-C included, nothing stays running; the logs stay.
        ours = f"{processes.MARKER}{root}/"
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
        if store.owns_profile(profile_name(name, user), profile_head(name)):
            store.remove_profile(profile_name(name, user))


def stop_sandbox(machine: Machine, store: Store) -> int | None:
    """Stop the sandbox's processes and delete all it has; returns how many were stopped, None without one."""
    with store.locked():
        state = store.load()
        if state is None:
            store.remove_root()
            return None
        return _remove(machine, store, state)


def load_state(store: Store) -> SandboxState:
    """The state of a sandbox that must be there; raises `UsageError` otherwise."""
    state = store.load()
    if state is None:
        raise UsageError(
            f"there is no sandbox {store.root.name}", hint=str(shell_command("sandbox up", name=store.root.name))
        )
    if state.phase is Phase.STARTING:
        raise TryLaterError(
            f"sandbox {store.root.name} is not up", hint=str(shell_command("sandbox up", name=store.root.name))
        )
    return state


def kill(machine: Machine, store: Store, broker_id: int) -> bool:
    """SIGKILL a broker; returns False when it was dead already."""
    with store.locked():
        record = _broker(load_state(store), broker_id)
        return record.process is not None and bool(machine.processes.kill([record.process]))


def restart(machine: Machine, store: Store, broker_id: int, reporter: Reporter) -> SandboxState:
    """Start a dead broker, or stop and start a live one; waits until it is registered and unfenced."""
    label = f"starting broker {broker_id}"
    with log_tails_printed(reporter), store.locked(), reporter.progress(label) as progress:
        state = load_state(store)
        record = _broker(state, broker_id)
        if record.process is not None:
            # A clean stop ends the broker's session, which it would have to wait for otherwise.
            machine.processes.kill([record.process], graceful_s=10)
        end = machine.clock.monotonic() + _OLD_SESSION_LIMIT_S
        while True:
            store.set_aside(record.node.log_file)
            state = start_node(machine, store, state, record.node)
            try:
                return wait_until_up(machine, store, state, (broker_id,), progress)
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


# The keys in which the brokers of a sandbox differ; all others, secrets included, are copied from a neighbour.
_OWN_KEYS = frozenset({"listeners", "advertised.listeners", "log.dirs", "broker.rack", "node.id", "broker.id"})


def grow(machine: Machine, store: Store, spec: SandboxSpec, reporter: Reporter) -> SandboxState | None:
    """Start the brokers that `spec` has more than the running sandbox, and wait until they are unfenced.

    Returns None when there is nothing to grow: no sandbox runs, or it differs in more than its size.
    On a failure the new brokers are stopped and forgotten; those that ran before are left alone.
    """
    with log_tails_printed(reporter), store.locked():
        state = store.load()
        if state is None:
            return None
        spec = continue_spec(spec, state.spec)
        if not _can_grow(machine, state, spec):
            return None
        before = state
        missing = spec.brokers - state.spec.brokers
        ports = iter(machine.processes.free_ports(missing * len(broker_listeners(spec))))
        first = state.spec.brokers
        directories = sum(spec.log_dirs_of(first + n) for n in range(missing))
        ids = (kafka_uuid(machine.random_bytes) for _ in range(directories))
        nodes = [broker_node(spec, str(store.root), first + n, ports, ids) for n in range(missing)]
        state = replace(state, spec=spec, nodes=(*state.nodes, *(NodeRecord(node=node) for node in nodes)))
        launch = find_launch(machine, spec.kafka, state.java, machine.jars.class_path(spec.kafka, reporter.say))
        try:
            with reporter.progress(f"starting {describe(spec)}") as progress:
                for node in nodes:
                    _write_node(store, state, node, launch)
                    state = start_node(machine, store, state, node)
                state = wait_until_up(machine, store, state, tuple(node.id for node in nodes), progress)
            write_profiles(store, state)
        except BaseException:
            # By what was started, not by what was recorded: a stop may fall between the two.
            ours = tuple(f"{processes.MARKER}{node.folder}" for node in nodes)
            machine.processes.kill([r for r in machine.processes.started() if r.marker.startswith(ours)])
            store.save(before)
            raise
        return state


def _can_grow(machine: Machine, state: SandboxState, spec: SandboxSpec) -> bool:
    keeper = state.nodes[0].process
    return (
        state.phase is Phase.UP
        and spec.brokers > state.spec.brokers
        and replace(state.spec, brokers=spec.brokers, rack_of=spec.rack_of) == spec
        and keeper is not None
        and machine.processes.is_alive(keeper)
    )


def _write_node(store: Store, state: SandboxState, node: Node, launch: processes.JavaLaunch) -> None:
    layout = state.layout
    neighbour = processes.properties_file(layout.brokers[0])
    own = broker_properties(state.spec, layout, node, str(store.root), None)
    store.make_folder(node.folder)
    store.write(processes.argument_file(node), processes.node_arguments(node, launch))
    store.write(processes.properties_file(node), _copy_of_neighbour(store.read_text(neighbour), own))
    for directory, directory_id in zip(node.log_dirs, node.directory_ids, strict=True):
        store.make_folder(directory)
        if layout.keeper.role is NodeRole.CONTROLLER:
            text = render_properties(meta_properties(state.cluster_id, node.id, directory_id))
            store.write(f"{directory}/meta.properties", text)


def _copy_of_neighbour(neighbour: str, own: dict[str, str]) -> str:
    lines = []
    for line in neighbour.splitlines():
        key = line.partition("=")[0]
        lines.append(f"{key}={own[key]}" if key in _OWN_KEYS else line)
    return "\n".join(lines) + "\n"


_FORMAT_LIMIT_S = 300.0


def write_secrets(machine: Machine, store: Store, spec: SandboxSpec, layout: SandboxLayout) -> Passwords | None:
    """Make passwords, keys and certificates as the mode needs them; None for an open cluster."""
    if spec.secure is ClientSecurity.NONE:
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


def write_nodes(store: Store, state: SandboxState, launch: processes.JavaLaunch, passwords: Passwords | None) -> None:
    """Write each node's folder: configuration, argument file and, for KRaft brokers, formatted log dirs."""
    layout = state.layout
    for node in layout.nodes:
        store.make_folder(node.folder)
        store.write(processes.argument_file(node), processes.node_arguments(node, launch))
        store.write(
            processes.properties_file(node), render_properties(_settings(state, layout, node, store, passwords))
        )
        for directory in node.log_dirs:
            store.make_folder(directory)
        for directory, directory_id in zip(node.log_dirs, node.directory_ids, strict=False):
            if layout.keeper.role is NodeRole.CONTROLLER:
                text = render_properties(meta_properties(state.cluster_id, node.id, directory_id))
                store.write(f"{directory}/meta.properties", text)


def _settings(
    state: SandboxState, layout: SandboxLayout, node: Node, store: Store, passwords: Passwords | None
) -> dict[str, str]:
    if node.role is NodeRole.ZOOKEEPER:
        return zookeeper_properties(layout)
    if node.role is NodeRole.CONTROLLER:
        return controller_properties(state.spec, layout, passwords)
    return broker_properties(state.spec, layout, node, str(store.root), passwords)


def start_processes(
    machine: Machine, store: Store, state: SandboxState, launch: processes.JavaLaunch, passwords: Passwords | None
) -> SandboxState:
    """Start the keeper first: a broker without a controller asks for it all the time, a quarter of its start."""
    for node in state.layout.nodes:
        if node.role is NodeRole.CONTROLLER:
            _format(machine, store, state, launch, passwords)
        state = start_node(machine, store, state, node)
    return state


def start_node(machine: Machine, store: Store, state: SandboxState, node: Node) -> SandboxState:
    """Record one process and start it."""

    def remember(process: ProcessRecord) -> None:
        store.save(state.with_process(node, process))

    record = machine.processes.start(processes.command(state.java, node), node.log_file, remember)
    return state.with_process(node, record)


def _format(
    machine: Machine, store: Store, state: SandboxState, launch: processes.JavaLaunch, passwords: Passwords | None
) -> None:
    """Run Kafka's storage tool on the controller's metadata dir."""
    node = state.layout.keeper
    users: dict[str, str] = {}
    if passwords is not None and state.spec.secure.uses_scram:
        users = {user: passwords.of(user).reveal() for user in CLIENT_USERS}
    path = f"{node.folder}/format.args"
    store.write(path, processes.format_arguments(node, state.cluster_id, launch, users))
    log = f"{node.folder}/format.log"

    def remember(process: ProcessRecord) -> None:
        store.save(state.with_process(node, process))

    record = machine.processes.start((state.java, processes.marker(node), f"@{path}"), log, remember)
    status = machine.processes.wait(record, _FORMAT_LIMIT_S)
    store.remove(path)
    if status != 0:
        raise NodeFailedError(f"Kafka's storage tool ended with status {status}", tail=store.tail(log))


START_LIMIT_S = 300.0
_POLL_S = 0.1
# Kafka 3.9 ends with a NullPointerException in the second where the old session ends between its two requests.
_OLD_SESSION = ("NodeExistsException", "getAfterNodeExists")
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
    wanted = [record for record in state.nodes if record.node.id in broker_ids and record.node.role is NodeRole.BROKER]
    security = admin_security(state, store)
    for _ in repeat_every(machine.clock, _POLL_S, START_LIMIT_S):
        for record in (state.nodes[0], *wanted):
            if not is_alive(machine, record):
                raise _exited_error(store, record.node)
        open_now = sum(machine.processes.answers(_client_port(record.node)) for record in wanted)
        progress.update(open_now, len(wanted), "brokers listen")
        if open_now == len(wanted) and _unfenced_brokers(machine, wanted, security) >= {r.node.id for r in wanted}:
            return state
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


def _unfenced_brokers(machine: Machine, wanted: Sequence[NodeRecord], security: Security) -> set[int]:
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


def _exited_error(store: Store, node: Node) -> NodeFailedError:
    tail = store.tail(node.log_file)
    lines = store.tail(node.log_file, 200)
    if any(sign in line for line in lines for sign in _OLD_SESSION):
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
        if alive and record.node.role is NodeRole.BROKER:
            word = str(reported.get(record.node.id, "unregistered"))
        pid = record.process.pid if alive and record.process else None
        found.append(NodeStatus(node=record.node, pid=pid, state=word))
    return tuple(found)


_BUILD_LIMIT_S = 600.0
_NUMBER = re.compile(r" id: \d+$", re.MULTILINE)


def find_launch(machine: Machine, version: str, java: str, class_path: Sequence[str]) -> processes.JavaLaunch:
    """How to start Java here: with the class archive of this Kafka and Java, or recording for it where there is none.

    A JVM that failed to write an archive left an empty file, and starts without one.
    """
    launch = processes.JavaLaunch(java=java, class_path=tuple(class_path))
    if not machine.class_archives:
        return launch
    folder = Path(machine.class_archives)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"kafka-{version}-{_digest(java, class_path)}.jsa"
        use = processes.ArchiveUse.RECORD
        if path.exists():
            use = processes.ArchiveUse.READ if path.stat().st_size else processes.ArchiveUse.NONE
    except OSError:
        return launch
    return replace(launch, archive=str(path), use=use)


def build_class_archive(
    machine: Machine, store: Store, state: SandboxState, launch: processes.JavaLaunch, reporter: Reporter
) -> None:
    """Write the archive of what a recording sandbox loaded, under a temporary name first.

    Cost: about 5 s of one core, once for a Kafka version and a Java; 60 MB of cache. Several processes may do it at
    once: the last one wins, and the archives are alike.
    """
    if launch.use is not processes.ArchiveUse.RECORD:
        return
    reporter.say(f"preparing faster starts of Kafka {state.spec.kafka} (once)")
    target, keeper = Path(launch.archive), state.layout.keeper
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    class_list, arguments = f"{keeper.folder}/all.classes", f"{keeper.folder}/archive.args"
    lists = [processes.class_list_file(node) for node in state.layout.nodes[:2]]
    store.write(class_list, "".join(_join_lists([*lists, processes.format_class_list_file(keeper)])))
    store.write(arguments, processes.archive_arguments(launch, class_list, str(temporary)))
    with contextlib.suppress(OSError):
        command = (state.java, processes.marker(keeper), f"@{arguments}")
        # Not recorded: it ends by itself, whatever happens to this process.
        record = machine.processes.start(command, f"{keeper.folder}/archive.log", lambda _: None)
        status = machine.processes.wait(record, _BUILD_LIMIT_S)
        if status or not temporary.exists():
            temporary.write_bytes(b"")
        temporary.replace(target)


def _digest(java: str, class_path: Iterable[str]) -> str:
    """Names the launcher and the jars as they are now: a JVM refuses an archive made with other ones."""
    facts = []
    for path in (java, *class_path):
        stat = os.stat(path)
        facts.append(f"{path} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _join_lists(lists: Iterable[str]) -> dict[str, None]:
    """The lines of several class lists, each once.

    A line that a running process has not finished is left out, and so are classes with a source, which not the class
    path gave; numbers, by which only such lines refer to others, differ between the lists.
    """
    lines: dict[str, None] = {}
    for path in lists:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            whole = (line for line in file if line.endswith("\n") and " source: " not in line)
            lines |= dict.fromkeys(_NUMBER.sub("", line) for line in whole)
    return lines
