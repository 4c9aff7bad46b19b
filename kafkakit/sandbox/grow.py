"""Add brokers to a sandbox that runs, as an operator brings in a replacement."""

from dataclasses import replace

from kafkakit.ports.acting import Reporter
from kafkakit.ports.machine import Machine
from kafkakit.sandbox.class_archive import find_launch
from kafkakit.sandbox.decide import jvm
from kafkakit.sandbox.decide.layout import Node, Role, broker_listeners, broker_node
from kafkakit.sandbox.decide.properties import broker_properties, meta_properties, render_properties
from kafkakit.sandbox.decide.spec import SandboxSpec, continued, describe
from kafkakit.sandbox.decide.state import NodeRecord, Phase, SandboxState
from kafkakit.sandbox.folders import Store
from kafkakit.sandbox.lifecycle import kafka_uuid, write_profiles
from kafkakit.sandbox.nodes import start_node
from kafkakit.sandbox.watch import log_tails_printed, wait_until_up

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
        spec = continued(spec, state.spec)
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
            ours = tuple(f"{jvm.MARKER}{node.folder}" for node in nodes)
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


def _write_node(store: Store, state: SandboxState, node: Node, launch: jvm.Launch) -> None:
    layout = state.layout
    neighbour = jvm.properties_file(layout.brokers[0])
    own = broker_properties(state.spec, layout, node, str(store.root), None)
    store.make_folder(node.folder)
    store.write(jvm.argument_file(node), jvm.node_arguments(node, launch))
    store.write(jvm.properties_file(node), _like(store.read_text(neighbour), own))
    for directory, directory_id in zip(node.log_dirs, node.directory_ids, strict=True):
        store.make_folder(directory)
        if layout.keeper.role is Role.CONTROLLER:
            text = render_properties(meta_properties(state.cluster_id, node.id, directory_id))
            store.write(f"{directory}/meta.properties", text)


def _like(neighbour: str, own: dict[str, str]) -> str:
    lines = []
    for line in neighbour.splitlines():
        key = line.partition("=")[0]
        lines.append(f"{key}={own[key]}" if key in _OWN_KEYS else line)
    return "\n".join(lines) + "\n"
