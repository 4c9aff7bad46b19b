"""Bring a sandbox up and down, and look at it: real Kafka processes on this machine."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace

from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
from kafkakit.ports.acting import ProgressBar, Reporter
from kafkakit.ports.machine import Machine, NodeFailedError, OldSessionError, PortTakenError
from kafkakit.sandbox.class_archive import build_class_archive, find_launch
from kafkakit.sandbox.decide import jvm
from kafkakit.sandbox.decide.connection import profile_head, profile_name, profile_tree, profile_users, render_profile
from kafkakit.sandbox.decide.credentials import CLIENT_USERS
from kafkakit.sandbox.decide.layout import Role, directories_needed, lay_out, ports_needed
from kafkakit.sandbox.decide.spec import SandboxSpec, continued, describe
from kafkakit.sandbox.decide.state import NodeRecord, Phase, SandboxState, new_state
from kafkakit.sandbox.folders import Store
from kafkakit.sandbox.nodes import start_node, start_processes, write_nodes, write_secrets
from kafkakit.sandbox.watch import admin_security, is_alive, live_cluster_id, log_tails_printed, wait_until_up

__all__ = ["admin_security", "down", "kafka_uuid", "kill", "loaded", "restart", "start_node", "up", "wait_until_up"]

_PORT_ATTEMPTS = 3
_OLD_SESSION_LIMIT_S = 60.0


def up(machine: Machine, store: Store, spec: SandboxSpec, reporter: Reporter) -> tuple[SandboxState, bool]:
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
    if state.spec != continued(spec, state.spec):
        raise RefusedError(
            f"sandbox {spec.name} runs already, with {describe(state.spec)}",
            hint=f"kafkakit sandbox down --name {spec.name}",
        )
    if dead:
        raise NodeFailedError(
            f"sandbox {spec.name} runs incompletely: {', '.join(record.node.label for record in dead)} is dead",
            hint=_revival_hint(spec.name, dead),
        )
    return state


def _revival_hint(name: str, dead: Sequence[NodeRecord]) -> str:
    if any(record.node.role is not Role.BROKER for record in dead):
        return f"kafkakit sandbox down --name {name}"
    return f"kafkakit sandbox restart {dead[0].node.id} --name {name}"


def _start(
    machine: Machine, store: Store, spec: SandboxSpec, launch: jvm.Launch, reporter: Reporter, progress: ProgressBar
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


def kill(machine: Machine, store: Store, broker_id: int) -> bool:
    """SIGKILL a broker; returns False when it was dead already."""
    with store.locked():
        record = _broker(loaded(store), broker_id)
        return record.process is not None and bool(machine.processes.kill([record.process]))


def restart(machine: Machine, store: Store, broker_id: int, reporter: Reporter) -> SandboxState:
    """Start a dead broker, or stop and start a live one; waits until it is registered and unfenced."""
    label = f"starting broker {broker_id}"
    with log_tails_printed(reporter), store.locked(), reporter.progress(label) as progress:
        state = loaded(store)
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
