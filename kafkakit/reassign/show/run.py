"""A run's words: the changes before it, the result after it."""

from collections.abc import Iterable, Mapping, Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes, format_rough_time
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.outcome import Commands, Direction, Outcome
from kafkakit.execution.decide.precheck import Live, ids
from kafkakit.execution.decide.rates import lifting_options, rate_words, rates_to_data, without_rates
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.execution.decide.verdict import NOT_ALIVE, PartitionVerdict
from kafkakit.report.blocks import attributes
from kafkakit.report.report import Report

SHOWN_CHANGES = 20
PARTITION_COLUMNS = ("topic", "partition", "state", "replicas", "wanted", "leader", "out_of_sync")


def render_changes(plan: Plan, goals: Sequence[Goal], direction: Direction, *, rates: Rates, live: Live) -> list[str]:
    """The diff shown before asking: totals, what each broker receives and gives, the first changed lists."""
    copies = sum(len(g.adding) for g in goals)
    total = sum((g.size_bytes or 0) * len(g.adding) for g in goals)
    unknown = sum(1 for g in goals if g.adding and g.size_bytes is None)
    if direction is Direction.ABORT:
        return [f"cluster {plan.cluster_id}: running moves of the plan are cancelled, finished ones stay"]
    verb = "to change" if direction is Direction.APPLY else "to put back"
    done = len(plan.moves) - len(goals)
    lines = [
        f"cluster {plan.cluster_id}: {counted(len(goals), 'partition')} {verb}, "
        f"{counted(copies, 'copy', 'copies')} to make, {format_bytes(total)}"
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


def _broker_lines(goals: Iterable[Goal], live: Live) -> list[str]:
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
        parts = [f"receives {counted(len(sizes), 'copy', 'copies')} ({format_bytes(sum(sizes))})"] if sizes else []
        parts += [f"gives up {goes[broker]}"] if broker in goes else []
        parts += [] if live.is_alive(broker) else ["not alive"]
        lines.append(f"  broker {broker}: {', '.join(parts)}")
    return lines


def outcome_report(outcome: Outcome) -> Report:
    """What a run came to; one that is not whole fails."""
    return Report(
        command=f"reassign {outcome.direction.value}",
        data=outcome_data(outcome),
        text=render_outcome(outcome),
        columns=PARTITION_COLUMNS,
        rows=partition_rows(outcome.partitions),
        failure=_failure(outcome),
    )


def _failure(outcome: Outcome) -> OperationFailedError | None:
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


def render_outcome(outcome: Outcome) -> str:
    """The result for people."""
    complete = sum(v.complete for v in outcome.partitions)
    lines = [f"{outcome.verdict}: {complete} of {len(outcome.partitions)} planned partitions are in place and in sync"]
    if outcome.submitted:
        lines.append(
            f"{counted(outcome.submitted, 'move')} sent, {format_bytes(outcome.copied_bytes)} copied in "
            f"{format_rough_time(outcome.seconds)}{_foretold(outcome)}"
        )
    if outcome.dirs_moved:
        lines.append(f"{counted(outcome.dirs_moved, 'copy', 'copies')} moved between log dirs inside brokers")
    lines += [f"problem: {p}" for p in outcome.problems]
    lines += [f"throttle left: {o}" for o in outcome.owed]
    if outcome.ok and outcome.submitted:
        lines.append("throttles: none of ours is left")
    if outcome.next_commands:
        lines += ["next:", *outcome.next_commands]
    return "\n".join(lines) + "\n"


def eta_error_percent(outcome: Outcome) -> float | None:
    """How much longer the run took than it said before its first byte, in percent; None where nothing was said."""
    if outcome.promise is None or outcome.promise.promised_s <= 0:
        return None
    return round(100 * (outcome.seconds / outcome.promise.promised_s - 1), 1)


def _foretold(outcome: Outcome) -> str:
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


def outcome_data(outcome: Outcome) -> dict[str, object]:
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
        "problems": list(outcome.problems),
        "partitions": [partition_data(v) for v in outcome.partitions],
        "next_commands": list(outcome.next_commands),
    }


def _one_rate(rates: Rates | None) -> int | None:
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
        "topic": verdict.key.topic,
        "partition": verdict.key.partition,
        "state": verdict.word,
        **attributes(verdict, "complete replicas wanted leader out_of_sync"),
    }


def partition_rows(verdicts: Iterable[PartitionVerdict]) -> tuple[tuple[object, ...], ...]:
    """One row a partition, in `PARTITION_COLUMNS`."""
    return tuple((*v.key, v.word.replace(" ", "-"), v.replicas, v.wanted, v.leader, v.out_of_sync) for v in verdicts)
