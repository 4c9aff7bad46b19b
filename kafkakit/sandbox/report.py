"""The reports of the sandbox commands."""

import shlex
from collections.abc import Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.quantities import format_bytes
from kafkakit.report.report import Report, ResultTable, attributes, single_row
from kafkakit.sandbox.decide.processes import environment
from kafkakit.sandbox.decide.spec import NodeStatus, SandboxState, describe
from kafkakit.sandbox.decide.workload import DEAD, NEW, DemoOutcome, LoadRequest, TopicLoad


def up_report(state: SandboxState, nodes: Sequence[NodeStatus], profile_file: str) -> Report:
    """The processes of a sandbox that is up, and a command to begin with."""
    name = state.spec.name
    first = f"kafkakit --profile {shlex.quote(name)} snapshot --output-file snapshot.json"
    heading = (f"sandbox {name} is up: {describe(state.spec)}", f"try: {first}")
    return _nodes_report("sandbox up", heading, state, nodes, profile_file)


def status_report(state: SandboxState, nodes: Sequence[NodeStatus], profile_file: str) -> Report:
    """The processes of a sandbox as they are now."""
    heading = (f"sandbox {state.spec.name}: {describe(state.spec)}",)
    return _nodes_report("sandbox status", heading, state, nodes, profile_file)


def _nodes_report(
    command: str, heading: Sequence[str], state: SandboxState, nodes: Sequence[NodeStatus], profile_file: str
) -> Report:
    rows = tuple((n.node.id, n.node.role, n.node.rack, n.node.address, n.pid, n.state, n.node.log_file) for n in nodes)
    table = ResultTable(("node", "role", "rack", "address", "pid", "state", "log"), rows)
    return Report(
        command=command,
        data={
            "name": state.spec.name,
            "cluster_id": state.cluster_id,
            "bootstrap_servers": state.layout.bootstrap_servers,
            **attributes(state.spec, "kafka mode secure"),
            "profile": profile_file,
            "nodes": [
                {**record, "log_dirs": list(status.node.log_dirs)}
                for record, status in zip(table.records(), nodes, strict=True)
            ],
        },
        sections=(*heading, "", table),
    )


def down_report(name: str, stopped: int | None, forgotten: str | None = None) -> Report:
    """How many processes were stopped; None where there was no sandbox. `forgotten` was the default profile."""
    lines = [
        f"there is no sandbox {name}" if stopped is None else f"sandbox {name} is gone, {stopped} processes stopped"
    ]
    if forgotten is not None:
        lines.append(f"profile {forgotten} was the default; no profile is in use now")
    data = {
        "name": name,
        "existed": stopped is not None,
        "processes_stopped": stopped or 0,
        "default_profile_cleared": forgotten,
    }
    table = single_row({"name": name, "stopped": stopped or 0})
    return Report(command="sandbox down", data=data, sections=lines, table=table)


def env_report(state: SandboxState) -> Report:
    """Shell lines that point a shell at the sandbox."""
    variables = environment(state)
    lines = [f"export {key}={shlex.quote(value)}" for key, value in variables.items()]
    rows = tuple(variables.items())
    return Report(
        command="sandbox env", data={"env": variables}, sections=lines, table=ResultTable(("variable", "value"), rows)
    )


def kill_report(broker: int, killed: bool) -> Report:
    """Whether the broker was killed, or was dead before."""
    text = f"broker {broker} was killed" if killed else f"broker {broker} was dead already"
    data = {"broker": broker, "killed": killed}
    return Report(command="sandbox kill", data=data, sections=(text,), table=single_row(data))


def restart_report(broker: int, state: SandboxState) -> Report:
    """The broker's new process."""
    record = state.broker(broker)
    pid = record.process.pid if record and record.process else None
    data = {"broker": broker, "pid": pid}
    text = f"broker {broker} is back (pid {pid})"
    return Report(command="sandbox restart", data=data, sections=(text,), table=single_row(data))


def load_report(request: LoadRequest, loads: Sequence[TopicLoad], records: int) -> Report:
    """The topics that were written, and how many records were acknowledged."""
    rows = tuple((item.name, len(item.assignments), request.replication, item.total_bytes) for item in loads)
    table = ResultTable(("topic", "partitions", "replication", "bytes"), rows)
    return Report(
        command="sandbox load",
        data={
            "records": records,
            "bytes": request.data_bytes,
            "topics": table.records(),
        },
        sections=(f"{len(loads)} topics hold {format_bytes(request.data_bytes)} in {records} acknowledged records",),
        table=table,
    )


def demo_report(outcome: DemoOutcome) -> Report:
    """What went in and came out; fails when something was lost."""
    traffic, before, after = outcome.traffic, outcome.loaded_before, outcome.loaded_after
    lost, loaded = len(traffic.lost), {"loaded_before": before, "loaded_after": after}
    failure = None
    if not traffic.is_whole or before != after:
        failure = OperationFailedError(
            f"{lost} of {traffic.acknowledged} acknowledged records are lost, "
            f"and of {before} loaded records {after} are left"
        )
    return Report(
        command="sandbox demo",
        data={
            **attributes(traffic, "acknowledged read repeated lost"),
            **loaded,
            "seconds": round(outcome.seconds, 1),
        },
        sections=(
            "",
            f"broker {DEAD} died under load; its replicas are back in place, on {NEW} and the survivors",
            f"records loaded: {before} before, {after} after",
            f"records acknowledged: {traffic.acknowledged}, read back: {traffic.read}, "
            f"read twice: {traffic.repeated}, {lost} lost",
            f"the whole demo took {outcome.seconds:.0f} s",
        ),
        table=single_row({**attributes(traffic, "acknowledged read repeated"), "lost": lost, **loaded}),
        failure=failure,
    )
