"""`reassign verify`: look at what a plan wanted, and say how it stands."""

from collections.abc import Mapping, Sequence

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.plan import Plan
from kafkakit.execution.act.cluster_access import ClusterAccess
from kafkakit.execution.act.recovery import find_lost, unaccounted
from kafkakit.execution.act.retrier import ClusterReader, Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.log_dir_moves import DirWork, dir_problems, dir_work, look_at_dirs
from kafkakit.execution.decide.outcome import Direction, Outcome, Request
from kafkakit.execution.decide.precheck import MoveState, assess, require_same_cluster
from kafkakit.execution.decide.recovery import unaccounted_words
from kafkakit.execution.decide.verdict import judge, lacking, shortcomings
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.reporter import Reporter

PATIENCE_S = 20.0


def verify(plan: Plan, access: ClusterAccess, journal: RunJournal, reporter: Reporter, request: Request) -> Outcome:
    """Judge every planned partition; when all are complete, take away throttles that a run of ours left.

    An access without a token may not: another process works on the cluster, and its throttles are in use.
    """
    admin, clock = access.admin, access.clock
    retrier = Retrier(clock, reporter, min(request.retry_limit_s, PATIENCE_S))
    reader = ClusterReader(admin, clock, retrier)
    topics = {m.topic for m in plan.moves} | {m.topic for m in plan.dir_moves}
    live = reader.live(topics)
    require_same_cluster(plan, live.cluster_id, request.pinned_cluster_id)
    assessment = assess(plan, live)
    for _ in range(3):  # a broker's metadata may lag behind the controller for a moment
        if not assessment.having(MoveState.DRIFTED):
            break
        clock.sleep(0.5)
        live = reader.live(topics)
        assessment = assess(plan, live)
    short = lacking(assessment)
    inside = dir_work(plan, live)
    elsewhere = dir_problems(look_at_dirs(inside, _log_dirs(admin, retrier, inside)))
    owed: tuple[str, ...] = ()
    fresh = len(assessment.having(MoveState.AT_BEFORE)) == len(assessment.statuses)
    state = journal.state
    cut = state.unsettled and state.baseline is not None  # lines may be missing at the end of its journal
    is_lost = bool(state.salvaged) or (not state.runs and not fresh) or cut
    if is_lost:
        lost = find_lost(admin, clock, retrier, plan, live, state, is_lost=state.is_lost)
        if lost.throttled and access.token is not None and not short and not elsewhere:
            journal.adopt(lost, request.plan_path)
    if journal.state.throttled:
        if short or elsewhere or access.token is None:
            owed = ("a run of this plan has throttles set",)
        else:
            owed = Throttles(admin, clock, journal, reporter, retrier).lift(live)
            if not owed:
                reporter.say("throttles that an earlier run left were removed")
    commands = request.commands
    next_commands: tuple[str, ...] = (commands.line("verify"),) if owed else ()
    words = unaccounted_words(unaccounted(admin, retrier, plan, journal.state))
    if words and is_lost:
        owed, next_commands = (*owed, *words), (*next_commands, commands.cleanup())
    for line in () if is_lost else words:
        reporter.warn(f"{line}; if they are of a lost run: {commands.cleanup()}")
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


def _log_dirs(admin: ClusterAdmin, retrier: Retrier, work: Sequence[DirWork]) -> Mapping[int, BrokerLogDirs]:
    brokers, keys = sorted({w.replica.broker for w in work}), {w.key for w in work}
    return retrier.call("reading log dirs", lambda: admin.log_dirs(brokers, keys)) if brokers else {}
