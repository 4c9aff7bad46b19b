"""`reassign apply MAP`: the map is judged as `topicmappr audit` does, and becomes a plan that is kept."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kafkakit.core.plan import Plan, identity_of
from kafkakit.execution.act.known_runs import KnownRuns
from kafkakit.execution.act.run_journal import plan_path
from kafkakit.execution.decide.outcome import Commands, Request
from kafkakit.ports.reporter import Reporter
from kafkakit.topicmappr.api import MAP_DIGEST, AuditRequest, audit_map, audit_text, digest_of, plan_of_map, read_map
from kafkakit.topicmappr.api_act import ObservingSession, observe


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlan:
    """The plan of a map, and the file that its run keeps it in; `announce` names that, where the plan is new."""

    plan: Plan
    path: str
    announce: Callable[[Commands], None] | None = None

    def announced_by(self, request: Request) -> Request:
        """The request, such that the file is named once the run is confirmed."""
        announce, confirm = self.announce, request.confirm
        if announce is None:
            return request

        def confirm_and_announce() -> bool:
            confirmed = confirm()
            if confirmed:
                announce(request.commands)
            return confirmed

        return replace(request, confirm=confirm_and_announce)


def take_map(
    data: bytes,
    source: str,
    session: ObservingSession,
    state_dir: Path,
    reporter: Reporter,
    *,
    allow_findings: bool,
) -> MapPlan:
    """The plan of a map for the live cluster, or that of its unfinished run, so that applying it again resumes.

    Prints the audit, without plans to compare with. Raises `InputError` for a file that is no map and what
    `plan_of_map` does. Cost: one snapshot of the cluster with sizes.
    """
    reading = read_map(data, source)
    snapshot = observe(session, None)
    digest = digest_of(reading)
    for run in KnownRuns(state_dir, snapshot.cluster_id).read():
        if run.state.unsettled and run.plan is not None and run.plan.request.get(MAP_DIGEST) == digest:
            reporter.say(f"a run of this map is unfinished, its plan is {run.state.plan_path}")
            return MapPlan(plan=run.plan, path=run.state.plan_path)
    audit = audit_map(snapshot, reading, AuditRequest(compared=False))
    for line in audit_text(audit, source).rstrip("\n").splitlines():
        reporter.say(line)
    words = {"command": "reassign apply", "map": source, MAP_DIGEST: digest}
    plan = plan_of_map(snapshot, reading, audit, words, allow_findings=allow_findings)
    path = plan_path(state_dir, plan.cluster_id, identity_of(plan))

    def announce(commands: Commands) -> None:
        reporter.say(f"the map's plan is {path}; to take it back: {commands.line('rollback')}")

    return MapPlan(plan=plan, path=str(path), announce=announce)
