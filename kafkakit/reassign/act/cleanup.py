"""`reassign cleanup` and `reassign verify`: what runs left on the cluster, and how it stands against a plan.

Cleanup takes away exactly what runs left, each change journaled before it is made; of throttles that others set, those
that the operator named and was shown. Verify looks at what a plan wanted and says how it stands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.cluster_facts import BrokerLogDirs, ResourceKind
from kafkakit.core.errors import InputError, KafkakitError, LeaseLostError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan, identity_of
from kafkakit.core.quantities import count_of
from kafkakit.core.rights import CLEANUP
from kafkakit.core.text import shell_command
from kafkakit.execution.act.journal_files import DiskFile, LineFile
from kafkakit.execution.act.leases import ClusterAccess
from kafkakit.execution.act.retrier import Retrier, RetryingReader
from kafkakit.execution.act.run_journal import RunJournal, existing_journal, is_journal_of, plan_of, read_run_state
from kafkakit.execution.act.throttles import Throttles, ThrottleWriter, find_lost, unaccounted_topics
from kafkakit.execution.decide.journal import CLOSED, COMPLETE, ConfigKey, JournalSubject, RunState
from kafkakit.execution.decide.plan_state import (
    DROPPED,
    DirWork,
    LiveState,
    MoveState,
    assess,
    dir_problems,
    dir_work,
    incomplete_verdicts,
    judge,
    look_at_dirs,
    passed_over,
    require_same_cluster,
    shortcomings,
)
from kafkakit.execution.decide.runs import (
    Commands,
    Direction,
    Request,
    RunOutcome,
    recover,
    replan_line,
    unaccounted_words,
    with_recovered,
)
from kafkakit.execution.decide.throttle import INSIDE_RATE, empty_list_changes, split_list
from kafkakit.ports.acting import Clock, Reporter, pace
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.reassign.decide.changes import LeftByRun, Leftover, LeftoverStatus, find_leftovers
from kafkakit.reassign.decide.foreign import (
    ForeignFate,
    ForeignSelection,
    ForeignThrottle,
    choose_throttles,
    foreign_changes,
    require_existing,
    split_unchanged,
)
from kafkakit.reassign.report.run import CleanupResult, plan_words


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRequest:
    """How to clean; `confirm` is asked once what is to be done was shown, None only shows it.

    What runs of `plan` left is recognised on the cluster even if their journal is lost. `others` are the throttles of
    others that go as well, or, without `ours`, only those; `note_others` opens the journal that this is recorded in.
    """

    confirm: Callable[[], bool] | None
    unthrottle_running: bool = False
    plan: Plan | None = None
    others: ForeignSelection | None = None
    ours: bool = True
    note_others: Callable[[], RunJournal] | None = None
    retry_limit_s: float = 90.0


def clean(
    admin: ClusterAdmin, clock: Clock, files: Sequence[LineFile], reporter: Reporter, request: CleanupRequest
) -> CleanupResult:
    """Take away what the journals' runs left; what moves still need stays unless the request says otherwise.

    The caller holds the cluster's lease, and `admin` and `clock` keep it (see `GuardedAdmin` and `HeldClock`).
    """
    retrier = Retrier(clock, reporter, request.retry_limit_s)
    before = _read_leftover(admin, clock, files, retrier, request)
    work = before.work if request.ours else ()
    chosen = _choose_runs(before, request)
    if not work and not before.others:
        if request.confirm is not None and request.ours:  # journals may forget what is gone from the cluster anyway
            _lift(
                admin,
                clock,
                [f for f in files if f.name in {r.journal for r in before.runs}],
                reporter,
                retrier,
                before,
            )
        return CleanupResult(before=before, verdict="clean", others=request.others)
    if request.confirm is None or not (chosen or _has_removable(before.others)):
        verdict = "planned" if chosen or _has_removable(before.others) else "kept"
        return CleanupResult(
            before=before, verdict=verdict, left=_kept_lines(before, work, chosen), others=request.others
        )
    for line in plan_words(before, request.others, unthrottle_running=request.unthrottle_running, ours=request.ours):
        reporter.say(line)
    if not request.confirm():
        return CleanupResult(before=before, verdict="declined", others=request.others)
    # The answer may have taken a while: what moves now decides.
    now = _read_leftover(admin, clock, files, retrier, request)
    chosen = _choose_runs(now, request)
    names = {r.journal for r in chosen}
    owed = _lift(admin, clock, [f for f in files if f.name in names], reporter, retrier, now)
    if request.others is not None and request.note_others is not None:
        agreed = _agreed_values(before.others, chosen if request.others.everything else ())
        last = _read_leftover(admin, clock, files, retrier, request) if names else now
        now = replace(now, others=last.others)
        owed = (*owed, *_remove_others(admin, clock, request.note_others(), reporter, retrier, last.others, agreed))
    kept = _kept_lines(now, now.work if request.ours else (), chosen)
    verdict = "incomplete" if owed or kept else "cleaned"
    return CleanupResult(before=now, verdict=verdict, left=(*owed, *kept), others=request.others)


def _choose_runs(found: Leftover, request: CleanupRequest) -> tuple[LeftByRun, ...]:
    """The runs whose throttles go."""
    if not request.ours:
        return ()
    return found.work if request.unthrottle_running else found.free


def _has_removable(others: Sequence[ForeignThrottle]) -> bool:
    return any(item.fate is ForeignFate.REMOVE for item in others)


def _agreed_values(shown: Sequence[ForeignThrottle], ours: Sequence[LeftByRun]) -> dict[ConfigKey, set[str]]:
    """The values that may be removed: those that were shown, and those that come back where ours go."""
    found: dict[ConfigKey, set[str]] = {}
    for item in shown:
        if item.fate is ForeignFate.REMOVE:
            values = {item.value} if item.key.kind is ResourceKind.BROKER else set(split_list(item.value))
            found.setdefault(item.key, set()).update(values)
    for rate in (r for run in ours for r in run.rates if r.fate is LeftoverStatus.RESTORE and r.earlier is not None):
        found.setdefault(rate.key, set()).add(str(rate.earlier))
    return found


def _remove_others(
    admin: ClusterAdmin,
    clock: Clock,
    journal: RunJournal,
    reporter: Reporter,
    retrier: Retrier,
    others: Sequence[ForeignThrottle],
    agreed: Mapping[ConfigKey, set[str]],
) -> tuple[str, ...]:
    """Remove throttles that others set, each value journaled before; returns what could not be removed, in words."""
    items, changed = split_unchanged(others, agreed)
    owed = [f"{k.kind.value} {k.name}: {k.key} was changed meanwhile, and is not removed" for k in changed]
    if not items:
        return tuple(owed)
    reader = RetryingReader(admin, clock, retrier)
    lists = {item.key for item in items if item.key.kind is ResourceKind.TOPIC}
    reader.require_rights(CLEANUP, reader.live(()), {key.name for key in lists})
    writer = ThrottleWriter(admin, clock, journal, retrier)
    try:
        refused = writer.write(JournalSubject.RESTORE, foreign_changes(items))
        emptied = empty_list_changes(lists, writer.topics({key.name for key in lists}))
        refused |= writer.write(JournalSubject.RESTORE, dict.fromkeys(emptied, ""))
    except LeaseLostError:
        raise
    except KafkakitError as error:
        return (*owed, error.message)
    return (*owed, *(f"{c.kind.value} {c.name}: {c.key} is not removed: {e}" for c, e in refused.items()))


def _lift(
    admin: ClusterAdmin,
    clock: Clock,
    files: Sequence[LineFile],
    reporter: Reporter,
    retrier: Retrier,
    found: Leftover,
) -> tuple[str, ...]:
    """Lift what is left of each journal; returns what could not be."""
    if not files:
        return ()
    reader = RetryingReader(admin, clock, retrier)
    live = reader.live(())
    journals = [_journal_of(file, clock, found) for file in files]
    entries = [e for j in journals for e in j.state.entries] + [e for r in found.recovered.values() for e in r.entries]
    if entries or any(journal.state.throttled for journal in journals):
        reader.require_rights(CLEANUP, live, {key.name for key in entries})
    owed: list[str] = []
    for file, journal in zip(files, journals, strict=True):
        if (lost := found.recovered.get(file.name)) is not None:
            journal.adopt(lost, journal.state.plan_path)
        owed += Throttles(admin, clock, journal, reporter, retrier).lift(live)
        if not journal.state.runs and not journal.state.throttled:  # no run of it is known: nothing can be resumed
            journal.check(JournalSubject.END, {"verdict": CLOSED, "problems": [], "owed": []})
    return tuple(owed)


def _journal_of(file: LineFile, clock: Clock, found: Leftover) -> RunJournal:
    plan = found.plans.get(file.name)
    if plan is None:
        return existing_journal(file, clock)
    return RunJournal(file, clock, cluster_id=plan.cluster_id, fingerprint=identity_of(plan))


def _kept_lines(found: Leftover, work: Sequence[LeftByRun], chosen: Sequence[LeftByRun]) -> tuple[str, ...]:
    ours = [
        f"{r.name}: its throttles stay, {count_of(len(r.running), 'move still runs', 'moves still run')} under them"
        for r in work
        if r.running and r not in chosen
    ]
    needed = [item for item in found.others if item.fate is ForeignFate.RUNNING]
    return (*ours, *(f"{i.key.kind.value} {i.key.name}: {i.key.key} {i.fate}" for i in needed))


def _read_leftover(
    admin: ClusterAdmin, clock: Clock, files: Sequence[LineFile], retrier: Retrier, request: CleanupRequest
) -> Leftover:
    """One look at journals and cluster."""
    named = request.plan
    states: dict[str, RunState] = {}
    plans: dict[str, Plan] = {}
    damaged: list[str] = []
    for file in files:
        try:
            states[file.name] = state = read_run_state(file)
        except InputError as error:
            damaged.append(error.message)
            continue
        plan = named if named is not None and is_journal_of(file, named) else None
        cut = state.unsettled and state.baseline is not None  # lines may be missing at the end of its journal
        if plan is None and (state.salvaged or cut) and isinstance(file, DiskFile):
            plan = plan_of(file.path, state)
        if plan is not None:
            plans[file.name] = plan
        elif state.salvaged:
            damaged.append(state.salvaged)

    def read() -> Leftover:
        snapshot = admin.snapshot(now=clock.now(), sizes=False)
        live = LiveState(
            cluster_id=snapshot.cluster_id,
            brokers={b.id: b for b in snapshot.brokers},
            states={},
            running={TopicPartition(r.topic, r.partition): r for r in snapshot.reassignments},
        )
        alive = [b.id for b in snapshot.brokers if b.is_alive]
        brokers = admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in alive]) if alive else {}
        inside = {int(k.name) for s in states.values() for k in s.rates if k.key == INSIDE_RATE} & set(alive)
        if request.others is not None:
            inside |= {int(b) for b, values in brokers.items() if INSIDE_RATE in values}
        dirs = admin.log_dirs(sorted(inside)) if inside else {}
        topics = {t.name: t.configs for t in snapshot.topics}
        changing = {b: len(answer.futures) for b, answer in dirs.items()}
        # What stood before the runs is another's, unless an operator names a plan of whose runs nothing is known.
        unknown = {n for n, p in plans.items() if p is named and not states[n].salvaged}
        known = {n: replace(states[n], baseline=None) if n in unknown else states[n] for n in plans}
        lost = {
            n: recover(p, live, known[n], brokers, topics, named=p is named or bool(states[n].salvaged))
            for n, p in plans.items()
        }
        lost = {n: found for n, found in lost.items() if found.throttled}
        merged = {n: with_recovered(s, lost[n]) if n in lost else s for n, s in states.items()}
        found = find_leftovers(merged, live, brokers, topics, changing, damaged)
        others: tuple[ForeignThrottle, ...] = ()
        if request.others is not None:
            hosts = {TopicPartition(t, p.partition): p.replicas for t, p in snapshot.partitions()}
            require_existing(request.others, hosts, topics)
            others = choose_throttles(
                [(s.key, s.value) for s in found.unowned],
                request.others,
                live.running,
                hosts,
                topics,
                changing,
                unthrottle_running=request.unthrottle_running,
            )
        silent = tuple(b.id for b in snapshot.brokers if not b.is_alive or str(b.id) not in brokers)
        return replace(found, recovered=lost, plans=plans, others=others, silent=silent)

    return retrier.call("reading the cluster", read)


READ_TIMEOUT_S = 20.0


def verify(plan: Plan, access: ClusterAccess, journal: RunJournal, reporter: Reporter, request: Request) -> RunOutcome:
    """Judge every planned partition; when all are complete, take away throttles that a run of ours left.

    An access without a token may not: another process works on the cluster, and its throttles are in use.
    """
    admin, clock = access.admin, access.clock
    retrier = Retrier(clock, reporter, min(request.retry_limit_s, READ_TIMEOUT_S))
    reader = RetryingReader(admin, clock, retrier)
    topics = {m.topic for m in plan.moves} | {m.topic for m in plan.dir_moves}
    for _ in pace(clock, range(4), 0.5):  # a broker's metadata may lag behind the controller for a moment
        live = reader.live(topics)
        require_same_cluster(plan, live.cluster_id, request.pinned_cluster_id)
        assessment = assess(plan, live)
        if not assessment.having(MoveState.DRIFTED):
            break
    state = journal.state
    is_complete = bool(state.runs) and state.verdict == COMPLETE  # else topics may only be hidden from this user
    short = incomplete_verdicts(assessment, without_gone=is_complete)
    inside = dir_work(plan, live)
    elsewhere = dir_problems(look_at_dirs(inside, _log_dirs(admin, retrier, inside)))
    owed: tuple[str, ...] = ()
    fresh = len(assessment.having(MoveState.AT_BEFORE)) == len(assessment.statuses)
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
    words = unaccounted_words(unaccounted_topics(admin, retrier, plan, journal.state))
    if words and is_lost:
        owed, next_commands = (*owed, *words), (*next_commands, commands.cleanup())
    for line in () if is_lost else words:
        reporter.warn(f"{line}; if they are of a lost run: {commands.cleanup()}")
    if short or elsewhere:
        next_commands = (commands.run(Direction.APPLY), commands.run(Direction.ROLLBACK))
        if state.unsettled and not elsewhere and all(v.state in DROPPED for v in short):  # no run can change that
            next_commands = (replan_line(state.operation) or _close_line(commands, state),)
    return RunOutcome(
        direction=Direction.VERIFY,
        verdict="incomplete" if short or elsewhere else "complete",
        partitions=judge(assessment),
        problems=(*shortcomings(short, live), *elsewhere),
        owed=owed,
        next_commands=next_commands,
        notes=passed_over(assessment),
    )


def _close_line(commands: Commands, state: RunState) -> str:
    return str(shell_command("reassign close", program=commands.program, run=state.run_id))


def _log_dirs(admin: ClusterAdmin, retrier: Retrier, work: Sequence[DirWork]) -> Mapping[int, BrokerLogDirs]:
    brokers, keys = sorted({w.replica.broker for w in work}), {w.key for w in work}
    return retrier.call("reading log dirs", lambda: admin.log_dirs(brokers, keys)) if brokers else {}
