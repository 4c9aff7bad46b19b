"""Results of runs and of what changes them: `apply` and its kin, `throttle`, `pause`, `continue`, `abort`, `cleanup`.

A run is reported twice: the changes before it, the result after it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import count_of, format_bytes, format_rate, format_rough_time
from kafkakit.core.text import ShellCommand, shell_command
from kafkakit.execution.decide.journal import ConfigKey, RunState
from kafkakit.execution.decide.plan_state import NOT_ALIVE, LiveState, MoveGoal, PartitionVerdict, ids, list_items
from kafkakit.execution.decide.runs import Commands, Direction, RunOutcome
from kafkakit.execution.decide.schedule.work import (
    BrokerRates,
    is_unlimited,
    lifting_options,
    rate_words,
    rates_to_data,
    without_rates,
)
from kafkakit.execution.decide.throttle import split_list
from kafkakit.reassign.decide.changes import (
    ForeignAbort,
    LeftByRun,
    Leftover,
    LeftoverStatus,
    LeftRate,
    RequestResult,
    ThrottleResult,
    UnownedThrottle,
)
from kafkakit.reassign.decide.foreign import ForeignFate, ForeignMoves, ForeignSelection
from kafkakit.report.report import NextCommands, Part, Remarks, Report, ResultTable, attributes, cap_lines

SHOWN_CHANGES = 20
PARTITION_COLUMNS = ("topic", "partition", "state", "replicas", "wanted", "leader", "out_of_sync")


def render_changes(
    plan: Plan, goals: Sequence[MoveGoal], direction: Direction, *, rates: BrokerRates, live: LiveState
) -> list[str]:
    """The diff shown before asking: totals, what each broker receives and gives, the first changed lists."""
    copies = sum(len(g.adding) for g in goals)
    total = sum((g.size_bytes or 0) * len(g.adding) for g in goals)
    unknown = sum(1 for g in goals if g.adding and g.size_bytes is None)
    if direction is Direction.ABORT:
        return [f"cluster {plan.cluster_id}: running moves of the plan are cancelled, finished ones stay"]
    verb = "to change" if direction is Direction.APPLY else "to put back"
    done = len(plan.moves) - len(goals)
    lines = [
        f"cluster {plan.cluster_id}: {count_of(len(goals), 'partition')} {verb}, "
        f"{count_of(copies, 'copy', 'copies')} to make, {format_bytes(total)}"
        + (f" (size of {unknown} partitions unknown)" if unknown else "")
        + (f"; {done} of {len(plan.moves)} are in place or have no share" if done else "")
    ]
    lines.append(f"throttle: {rate_words(rates)}")
    lines += _broker_lines(goals, live)
    for goal in goals[:SHOWN_CHANGES]:
        now = live.states.get(goal.key)
        mark = " (running)" if goal.running else ""
        leader = ""
        if now is not None and now.leader != goal.target[0]:
            leader = f", leader {'none' if now.leader is None else now.leader} -> {goal.target[0]}"
        lines.append(f"  {goal.key}: {ids(goal.holders)} -> {ids(goal.target)}{leader}{mark}")
    if len(goals) > SHOWN_CHANGES:
        lines.append(f"  and {len(goals) - SHOWN_CHANGES} more")
    return lines


def _broker_lines(goals: Iterable[MoveGoal], live: LiveState) -> list[str]:
    comes: dict[int, list[int]] = {}
    goes: dict[int, int] = {}
    for goal in goals:
        for broker in goal.adding:
            comes.setdefault(broker, []).append(goal.size_bytes or 0)
        for broker in goal.holders:
            if broker not in goal.target:
                goes[broker] = goes.get(broker, 0) + 1
    lines = []
    for broker in sorted(comes.keys() | goes.keys()):
        sizes = comes.get(broker, [])
        parts = [f"receives {count_of(len(sizes), 'copy', 'copies')} ({format_bytes(sum(sizes))})"] if sizes else []
        parts += [f"loses {count_of(goes[broker], 'replica')}"] if broker in goes else []
        down = "" if live.is_alive(broker) else " (broker is down)"
        lines.append(f"  broker {broker}: {', '.join(parts)}{down}")
    return lines


def outcome_report(outcome: RunOutcome) -> Report:
    """What a run came to; one that is not whole fails."""
    return Report(
        command=f"reassign {outcome.direction.value}",
        data=outcome_data(outcome),
        sections=outcome_sections(outcome),
        table=ResultTable(PARTITION_COLUMNS, partition_rows(outcome.partitions)),
        failure=_failure(outcome),
    )


def _failure(outcome: RunOutcome) -> OperationFailedError | None:
    if outcome.verdict == "declined":
        return OperationFailedError("not confirmed, nothing was changed")
    if outcome.ok:
        return None
    what = outcome.direction.value if outcome.direction is not Direction.VERIFY else "the plan"
    fact = [*outcome.problems, *outcome.owed][0]
    message = fact if outcome.direction is Direction.ABORT else f"{what} is not complete: {fact}"
    again = next(iter(outcome.next_commands), None)
    if again and any(NOT_ALIVE in p for p in outcome.problems):
        again = f"start the brokers that are not alive, then: {again}"
    return OperationFailedError(message, hint=again)


def outcome_sections(outcome: RunOutcome) -> Iterator[Part]:
    """The result for people."""
    complete = sum(v.complete for v in outcome.partitions)
    yield f"{outcome.verdict}: {complete} of {len(outcome.partitions)} planned partitions are in place and in sync"
    if outcome.submitted:
        yield (
            f"{count_of(outcome.submitted, 'move')} sent, {format_bytes(outcome.copied_bytes)} copied in "
            f"{format_rough_time(outcome.seconds)}{_forecast_text(outcome)}"
        )
    if outcome.dirs_moved:
        yield f"{count_of(outcome.dirs_moved, 'copy', 'copies')} moved between log dirs inside brokers"
    yield Remarks("note", outcome.notes)
    yield Remarks("problem", outcome.problems)
    yield Remarks("throttle left", outcome.owed)
    if outcome.ok and outcome.submitted:
        yield "throttles: all removed"
    yield NextCommands(outcome.next_commands)


def eta_error_percent(outcome: RunOutcome) -> float | None:
    """How much longer the run took than it said before its first byte, in percent; None where nothing was said."""
    if outcome.promise is None or outcome.promise.promised_s <= 0:
        return None
    return round(100 * (outcome.seconds / outcome.promise.promised_s - 1), 1)


def _forecast_text(outcome: RunOutcome) -> str:
    error, promise = eta_error_percent(outcome), outcome.promise
    if promise is None or error is None:
        return ""
    if promise.least_s is not None and promise.most_s is not None:
        return f" ({format_rough_time(promise.least_s)} to {format_rough_time(promise.most_s)} were forecast)"
    return f" ({format_rough_time(promise.promised_s)} were forecast, ETA error {error:+.1f} %)"


def stop_words(direction: Direction, moving: int, planned: int, state: RunState, commands: Commands) -> tuple[str, str]:
    """What to say when a run is stopped while moves are on their way: (message, hint with a command on each line)."""
    message = f"stopped; {moving} of {planned} moves still run on the cluster"
    resume, undo = commands.run(direction), commands.run(Direction.ROLLBACK)
    if not state.throttled:
        return message, _one_a_line({"to resume": resume, "to undo": undo})
    brokers = ", ".join(str(b) for b in sorted({int(k.name) for k in state.rates}))
    rate = f" of {rate_words(state.wanted).removesuffix(' per broker')}" if state.wanted else ""
    on = f" on brokers {brokers}" if brokers else ""
    lifting = lifting_options(state.wanted) if state.wanted else ("--throttle none",)
    without = " ".join([without_rates(resume), *lifting])
    return (
        f"{message}, the throttle{rate} stays set{on} until the run is resumed",
        _one_a_line({"to resume": resume, "to resume without the throttle": without, "to undo": undo}),
    )


def _one_a_line(commands: Mapping[str, str]) -> str:
    """What each command is for, in their order, and then the commands, each on a line of its own; none twice."""
    found: dict[str, str] = {}
    for purpose, command in commands.items():
        found.setdefault(command, purpose)
    return "\n".join((f"{', '.join(found.values())}:", *found))


def outcome_data(outcome: RunOutcome) -> dict[str, object]:
    """The result for programs."""
    return {
        "direction": outcome.direction.value,
        "verdict": outcome.verdict,
        "complete": all(v.complete for v in outcome.partitions),
        "counts": state_counts(outcome.partitions),
        "moves_sent": outcome.submitted,
        "bytes_copied": outcome.copied_bytes,
        "copies_moved_between_log_dirs": outcome.dirs_moved,
        "seconds": round(outcome.seconds, 3),
        "throttle_bytes_per_s": _one_rate(outcome.rates),
        "throttle": None if outcome.rates is None else rates_to_data(outcome.rates),
        "promised_seconds": None if outcome.promise is None else outcome.promise.promised_s,
        "promised_at_least_seconds": None if outcome.promise is None else outcome.promise.least_s,
        "promised_at_most_seconds": None if outcome.promise is None else outcome.promise.most_s,
        "eta_error_percent": eta_error_percent(outcome),
        "throttles_left": list(outcome.owed),
        **attributes(outcome, "problems notes"),
        "partitions": [partition_data(v) for v in outcome.partitions],
        "next_commands": list(outcome.next_commands),
    }


def _one_rate(rates: BrokerRates | None) -> int | None:
    """The rate where it is the same for all brokers and both directions."""
    if rates is None or rates.into != rates.out or rates.into_of or rates.out_of:
        return None
    return rates.into


def state_counts(verdicts: Iterable[PartitionVerdict]) -> Mapping[str, int]:
    """How many partitions are in each state."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
    return dict(sorted(counts.items()))


def partition_data(verdict: PartitionVerdict) -> dict[str, object]:
    """One partition for programs."""
    return {
        **attributes(verdict.key, "topic partition"),
        "state": verdict.word,
        **attributes(verdict, "complete replicas wanted leader out_of_sync"),
    }


def partition_rows(verdicts: Iterable[PartitionVerdict]) -> tuple[tuple[object, ...], ...]:
    """One row a partition, in `PARTITION_COLUMNS`."""
    return tuple((*v.key, v.word.replace(" ", "-"), v.replicas, v.wanted, v.leader, v.out_of_sync) for v in verdicts)


def throttle_report(result: ThrottleResult) -> Report:
    """The rates that hold from now on; what could not be set fails."""
    failure = None
    if result.problems:
        failure = OperationFailedError(f"the throttle is not changed everywhere: {result.problems[0]}")
    return Report(
        command="reassign throttle",
        data=_data(result),
        sections=_throttle_sections(result),
        table=ResultTable(("broker", "in", "out", "inside"), _rows(result.rates)),
        failure=failure,
    )


def _throttle_sections(result: ThrottleResult) -> Iterator[Part]:
    """The result for people."""
    if result.is_plan:
        yield "nothing is done; this would be the result:"
    yield "throttle lifted" if is_unlimited(result.rates) else f"throttle: {rate_words(result.rates)}"
    if result.moves is None:
        yield f"applied by {result.by}"
    else:
        yield f"set for {count_of(result.moves, 'move')} in flight of {result.by}"
    if not result.is_plan and not is_unlimited(result.rates):
        yield "brokers average over about 10 s: a higher rate begins with a burst, a lower one with a pause"
    yield Remarks("problem", result.problems)


def _data(result: ThrottleResult) -> dict[str, object]:
    """The result for programs."""
    return {
        "cluster_id": result.cluster_id,
        "taken_up_by": result.by,
        "moves_in_flight": result.moves,
        "rates": rates_to_data(result.rates),
        **attributes(result, "problems is_plan"),
    }


def _rows(rates: BrokerRates) -> tuple[tuple[object, ...], ...]:
    """One row for all brokers (`*`), one for each broker with rates of its own."""
    own = sorted({*rates.into_of, *rates.out_of})
    rows: Sequence[tuple[object, ...]] = [(b, rates.into_broker(b), rates.out_of_broker(b), rates.inside) for b in own]
    return (("*", rates.into, rates.out, rates.inside), *rows)


def control_report(verb: str, plan_file: str, result: RequestResult, done: str) -> Report:
    """What came of `reassign pause`, `continue` or `close`; `done` is the word for it, `planned` in a dry run."""
    return Report(
        command=f"reassign {verb}",
        data={
            "plan": plan_file,
            "paused": None if done == "planned" else done == "paused",
            "is_plan": done == "planned",
            **attributes(result, "run next_commands"),
        },
        sections=(result.words, NextCommands(result.next_commands)),
        table=ResultTable(("plan", "what", "run"), ((plan_file, done, result.run),)),
    )


FOREIGN_COLUMNS = ("topic", "partition", "target", "adding", "removing", "state")


def foreign_words(found: ForeignMoves) -> list[str]:
    """The moves that are to be cancelled, for the person who is asked."""
    count = count_of(len(found.moves), "move")
    lines = [f"cluster {found.cluster_id}: {count} to cancel, not of an unfinished run of this host"]
    words = []
    for move in found.moves:
        dead = [b for b in move.adding if b in found.dead]
        why = f"; broker {', '.join(map(str, dead))} is not alive" if dead else ""
        words.append(f"  {move.topic}-{move.partition}: to {ids(move.target)}, adding {ids(move.adding)}{why}")
    return [*lines, *cap_lines(words, str, SHOWN, "  and {} more")]


def foreign_report(result: ForeignAbort, program: str) -> Report:
    """What became of moves that others began; what was not cancelled fails."""
    words = result.selection.words
    again = str(ShellCommand("reassign abort", program=program, typed=(*words, "--yes")))
    lines: list[Part] = []
    if result.verdict == "nothing to abort":
        lines.append(f"cluster {result.found.cluster_id}: none of these moves runs, nothing to abort")
    elif result.verdict in ("planned", "declined"):
        lines += [*foreign_words(result.found), "nothing was changed"]
    else:
        lines.append(f"cancelled: {count_of(len(result.cancelled), 'move')}; recorded in {result.journal}")
    lines.append(Remarks("problem", result.problems))
    lines += [
        f"left: {count_of(len(keys), 'move')} of an unfinished run; to abort it: "
        f"{shell_command('reassign abort', program=program, run=run)}"
        for run, keys in result.found.ours.items()
    ]
    next_commands = (again,) if result.verdict in ("planned", "declined", "incomplete") else ()
    if result.throttled:
        next_commands = (*next_commands, str(ShellCommand("reassign cleanup", program=program, typed=words)))
        lines.append("throttles of these moves may still be set")
    failure = None
    if result.verdict == "declined":
        failure = OperationFailedError("not confirmed, nothing was changed")
    elif result.problems:
        failure = OperationFailedError(f"abort is not complete: {result.problems[0]}", hint=again)
    moves = [
        {
            **attributes(move, "topic partition target adding removing"),
            "waits_for": [b for b in move.adding if b in result.found.dead],
            "state": "cancelled" if (move.topic, move.partition) in result.cancelled else "running",
        }
        for move in result.found.moves
    ]
    return Report(
        command="reassign abort",
        data={
            "cluster_id": result.found.cluster_id,
            "direction": Direction.ABORT.value,
            "verdict": result.verdict,
            "foreign": True,
            "moves": moves,
            "runs_left": {run: [str(k) for k in keys] for run, keys in result.found.ours.items()},
            "problems": list(result.problems),
            "journal": result.journal or None,
            "next_commands": list(next_commands),
        },
        sections=(*lines, NextCommands(next_commands)),
        table=ResultTable(FOREIGN_COLUMNS, tuple(tuple(move[name] for name in FOREIGN_COLUMNS) for move in moves)),
        failure=failure,
    )


SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """What came out.

    `verdict` is `clean` (nothing that is meant was there), `planned` (only shown), `declined`, `kept` (all of it is
    needed by moves that still run), `cleaned` or `incomplete`; `left` says what stays and why. `others` is which
    throttles of others were meant, None: only ours.
    """

    before: Leftover
    verdict: str
    left: tuple[str, ...] = ()
    others: ForeignSelection | None = None

    @property
    def ours(self) -> bool:
        """True when what runs of this host left was meant."""
        return self.others is None or self.others.everything

    @property
    def ok(self) -> bool:
        """True when nothing of ours is left."""
        return self.verdict in ("clean", "cleaned") and not self.before.damaged


def cleanup_report(cleaned: CleanupResult, program: str, *, unthrottle_running: bool) -> Report:
    """What cleanup found and did; `program` is how kafkakit is called for this cluster. What is left fails."""
    words = () if cleaned.others is None else cleaned.others.words
    again = str(ShellCommand("reassign cleanup", program=program, typed=(*words, "--yes")))
    again += " --unthrottle-running" if unthrottle_running else ""
    next_commands = (again,) if cleaned.verdict in ("planned", "declined", "incomplete") else ()
    if cleaned.others is None and cleaned.before.unowned and cleaned.ok:
        next_commands = (str(shell_command("reassign cleanup", program=program, all=True)),)
    failure = None
    if not cleaned.ok:
        facts = [*cleaned.left, *(f"{d}, what its runs left is not known" for d in cleaned.before.damaged)]
        message = {
            "planned": "throttles of kafkakit are left, nothing was changed"
            if cleaned.others is None
            else "throttles are left, nothing was changed",
            "declined": "not confirmed, nothing was changed",
        }.get(cleaned.verdict) or f"cleanup is not complete: {facts[0]}"
        failure = OperationFailedError(message, hint=next(iter(next_commands), None))
    return Report(
        command="reassign cleanup",
        data=cleanup_data(cleaned, next_commands),
        sections=_cleanup_sections(cleaned, program, unthrottle_running=unthrottle_running),
        table=ResultTable(("kind", "name", "key", "value", "back_to", "owner", "fate"), cleanup_rows(cleaned)),
        failure=failure,
    )


def plan_words(
    found: Leftover, others: ForeignSelection | None, *, unthrottle_running: bool, ours: bool = True
) -> list[str]:
    """What is to be done, for the person who is asked."""
    lines = []
    if ours and (found.work or others is None):
        lines.append(f"cluster {found.cluster_id}: throttles that runs on this host left")
        for run in found.work:
            lines += _run_words(run)
            if run.running:
                lines.append(
                    "    they are removed anyway, the moves continue at full speed"
                    if unthrottle_running
                    else "    they stay; --unthrottle-running removes them anyway"
                )
    if found.others:
        lines.append(f"cluster {found.cluster_id}: throttles that others set")
        words = [f"  {_key_words(i.key)}: {_value_words(i.key, i.value)}, {i.fate}" for i in found.others]
        lines += cap_lines(words, str, SHOWN, "  and {} more")
        if any(i.fate is ForeignFate.RUNNING for i in found.others):
            lines.append("  --unthrottle-running also removes the throttles of running moves")
    if others is not None and others.everything and any(r.earlier for run in found.work for r in run.rates):
        lines.append("  earlier rates that would come back when ours are removed are also removed")
    return lines


def _cleanup_sections(cleaned: CleanupResult, program: str, *, unthrottle_running: bool) -> Iterator[Part]:
    """The result for people."""
    found, others = cleaned.before, cleaned.others
    if cleaned.verdict == "clean":
        whose = "of a run on this host is set" if others is None else "is set" if cleaned.ours else "of these is set"
        yield f"cluster {found.cluster_id}: no throttle {whose}"
    else:
        yield from plan_words(found, others, unthrottle_running=unthrottle_running, ours=cleaned.ours)
    if cleaned.verdict in ("cleaned", "incomplete"):
        what = "removed all throttles of kafkakit" if others is None else "removed them"
        yield what if cleaned.ok else "removed what could be removed"
    elif cleaned.verdict in ("planned", "declined"):
        yield "nothing was changed"
    yield Remarks("left", cleaned.left)
    yield Remarks("not read", found.damaged)
    if others is not None and found.silent:
        names = ", ".join(map(str, found.silent))
        yield f"not read: rates of broker {names}, which does not answer; run this again once it is back"
    if others is None and found.unowned:
        every = shell_command("reassign cleanup", program=program, all=True)
        yield f"not removed: set by another tool or another host; remove them: {every}"
        words = [f"  {_key_words(s.key)}: {_value_words(s.key, s.value)}" for s in found.unowned]
        yield from cap_lines(words, str, SHOWN, "  and {} more")


def cleanup_data(cleaned: CleanupResult, next_commands: tuple[str, ...]) -> dict[str, object]:
    """The result for programs."""
    found = cleaned.before
    return {
        "cluster_id": found.cluster_id,
        "verdict": cleaned.verdict,
        "complete": cleaned.ok,
        "runs": [
            {
                "journal": r.journal,
                "plan": r.plan_path,
                "direction": r.direction,
                "moves_running": list(r.running),
                "rates": [
                    {"broker": int(i.key.name), "key": i.key.key, "value": i.now, "back_to": i.earlier, "fate": i.fate}
                    for i in r.rates
                ],
                "lists": [
                    {"topic": i.key.name, "key": i.key.key, "entries": i.entries, "fate": i.fate} for i in r.lists
                ],
            }
            for r in found.runs
        ],
        "others": [{**i.key._asdict(), "value": i.value, "fate": i.fate} for i in found.others],
        "left_alone": [{**s.key._asdict(), "value": s.value} for s in _left_alone(found)],
        "left": list(cleaned.left),
        "damaged_journals": list(found.damaged),
        "next_commands": list(next_commands),
    }


def cleanup_rows(cleaned: CleanupResult) -> tuple[tuple[object, ...], ...]:
    """One row a rate or list; what is not ours has the owner `other`."""
    rows: list[tuple[object, ...]] = []
    for run in cleaned.before.runs:
        rows += [(i.key.kind.value, *i.key[1:], i.now, i.earlier, "ours", i.fate.value) for i in run.rates]
        rows += [(i.key.kind.value, *i.key[1:], ",".join(i.entries), None, "ours", i.fate.value) for i in run.lists]
    rows += [(i.key.kind.value, *i.key[1:], i.value, None, "other", i.fate.value) for i in cleaned.before.others]
    rows += [(s.key.kind.value, *s.key[1:], s.value, None, "other", "left alone") for s in _left_alone(cleaned.before)]
    return tuple(rows)


def _left_alone(found: Leftover) -> list[UnownedThrottle]:
    """What others set and was not meant; of a list that was meant in part, all of it is named with the others."""
    meant = {item.key for item in found.others}
    return [s for s in found.unowned if s.key not in meant]


def _run_words(run: LeftByRun) -> Iterator[str]:
    yield f"  {run.name}:"
    for rate in run.rates:
        yield f"    {_key_words(rate.key)}: {_rate_words(rate)}"
    for item in run.lists:
        more = (
            count_of(len(item.entries), "entry", "entries") + " of ours" if item.fate is LeftoverStatus.REMOVE else ""
        )
        yield f"    {_key_words(item.key)}: " + (f"{more}, {item.fate}" if more else str(item.fate))
    if run.running:
        yield f"    {count_of(len(run.running), 'move')} still run under them: {list_items(run.running)}"


def _rate_words(rate: LeftRate) -> str:
    if rate.fate is not LeftoverStatus.RESTORE:
        return str(rate.fate)
    back = "unset again" if rate.earlier is None else f"back to {_rate_text(rate.earlier)}"
    return f"{_rate_text(rate.now or '')}, {back}"


def _key_words(key: ConfigKey) -> str:
    return f"{key.kind.value} {key.name} {key.key}"


def _value_words(key: ConfigKey, value: str) -> str:
    if key.kind is ResourceKind.BROKER:
        return _rate_text(value)
    return "all replicas (*)" if value == "*" else count_of(len(split_list(value)), "entry", "entries")


def _rate_text(value: str) -> str:
    return format_rate(int(value)) if value.isdigit() else value
