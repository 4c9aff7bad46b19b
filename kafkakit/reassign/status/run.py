"""`reassign status` and `reassign verify`: look, and say how it stands."""

from collections.abc import Mapping, Sequence

from kafkakit.model import TopicPartition
from kafkakit.ports import BrokerLogDirs, Clock, ClusterAdmin, ResourceKind
from kafkakit.reassign.dir_work import DirWork, dir_problems, dir_work, look_at_dirs
from kafkakit.reassign.journal_state import RunState
from kafkakit.reassign.outcome import Direction, Outcome, Request, Voice
from kafkakit.reassign.precheck import MoveState, assess, require_same_cluster
from kafkakit.reassign.service import Lookout, Patient
from kafkakit.reassign.status.view import StatusView, view_status
from kafkakit.reassign.store_journal import Journal
from kafkakit.reassign.store_throttle import Throttles
from kafkakit.reassign.verdict import judge, lacking, shortcomings
from kafkakit.topicmappr.plan import Plan

WATCH_INTERVAL_S = 2.0
WATCH_PATIENCE_S = 90.0


def read_status(admin: ClusterAdmin, clock: Clock, journals: Sequence[RunState]) -> StatusView:
    """One look at the running moves and the throttles; `journals` are this host's runs on the cluster."""
    snapshot = admin.snapshot(now=clock.now(), sizes=False)
    alive = [b.id for b in snapshot.brokers if b.is_alive]
    involved = {b for m in snapshot.reassignments for b in m.replicas} & set(alive)
    keys = [TopicPartition(m.topic, m.partition) for m in snapshot.reassignments]
    dirs = admin.log_dirs(sorted(involved), keys) if involved else {}
    brokers = admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in alive])
    return view_status(snapshot, dirs, brokers, journals)


def watch_status(admin: ClusterAdmin, clock: Clock, journals: Sequence[RunState], voice: Voice) -> StatusView:
    """Look until no move runs, showing progress; returns the last look."""
    patient = Patient(clock, voice, WATCH_PATIENCE_S)
    with voice.progress("watching moves") as bar:
        while (view := patient.call("reading the cluster", lambda: read_status(admin, clock, journals))).moves:
            bar.update(view.copied_bytes, view.total_bytes, f"{len(view.moves)} moves running")
            clock.sleep(WATCH_INTERVAL_S)
    return view


def verify(
    plan: Plan,
    admin: ClusterAdmin,
    clock: Clock,
    journal: Journal,
    voice: Voice,
    request: Request,
    *,
    may_clean: bool,
) -> Outcome:
    """Judge every planned partition; when all are complete, take away throttles that a run of ours left.

    `may_clean` is False while another process works on the cluster: its throttles are in use.
    """
    patient = Patient(clock, voice, request.patience_s)
    lookout = Lookout(admin, clock, patient)
    topics = {m.topic for m in plan.moves} | {m.topic for m in plan.dir_moves}
    live = lookout.live(topics)
    require_same_cluster(plan, live.cluster_id, request.pinned_cluster_id)
    assessment = assess(plan, live)
    for _ in range(3):  # a broker's metadata may lag behind the controller for a moment
        if not assessment.having(MoveState.DRIFTED):
            break
        clock.sleep(0.5)
        live = lookout.live(topics)
        assessment = assess(plan, live)
    short = lacking(assessment)
    inside = dir_work(plan, live)
    elsewhere = dir_problems(look_at_dirs(inside, _log_dirs(admin, patient, inside)))
    owed: tuple[str, ...] = ()
    if journal.state.throttled:
        if short or elsewhere or not may_clean:
            owed = ("a run of this plan has throttles set",)
        else:
            owed = Throttles(admin, clock, journal, voice, patient).lift(live)
            if not owed:
                voice.say("throttles that an earlier run left were removed")
    commands = request.commands
    next_commands: tuple[str, ...] = (commands.line("verify"),) if owed else ()
    if short or elsewhere:
        next_commands = (commands.run(Direction.APPLY), commands.run(Direction.ROLLBACK))
    return Outcome(
        direction=Direction.VERIFY,
        verdict="incomplete" if short or elsewhere else "complete",
        partitions=judge(assessment),
        problems=(*shortcomings(short, live), *elsewhere),
        owed=owed,
        next_commands=next_commands,
    )


def _log_dirs(admin: ClusterAdmin, patient: Patient, work: Sequence[DirWork]) -> Mapping[int, BrokerLogDirs]:
    brokers, keys = sorted({w.replica.broker for w in work}), {w.key for w in work}
    return patient.call("reading log dirs", lambda: admin.log_dirs(brokers, keys)) if brokers else {}
