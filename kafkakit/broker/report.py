"""What a command on brokers came to, as text and as data."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.broker.decide.cordons import CordonStep, CordonVerdict
from kafkakit.broker.decide.operation import BrokerCounts, BrokerOperationKind
from kafkakit.broker.decide.restarts import (
    RestartAnswer,
    RestartFacts,
    RestartPlan,
    RestartRound,
    RestartVerdict,
    ScriptKind,
    ScriptRequest,
)
from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.text import few_of, quote, sanitize, shell_command
from kafkakit.execution.decide.runs import RunOutcome
from kafkakit.report.exports import files_report
from kafkakit.report.report import DeferredItems, NextCommands, Part, Remarks, Report, ResultTable, attributes

SHOWN_PARTITIONS = 20
CORDON_COLUMNS = ("broker", "verdict", "log_dirs", "reason", "note")
VERDICT_COLUMNS = ("partition", "in_sync", "left", "min_isr", "replicas", "isr", "why")
ROUND_COLUMNS = ("round", "count", "rack", "brokers")
COLUMNS = ("broker", "state", "rack", "replicas", "leaders", "out_of_sync")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """What a plan that was made by this command comes to; `bytes` counts copies of known size."""

    partitions: int
    copies: int
    bytes: int
    leaders_first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOutcome:
    """The result of one command.

    `verdict` is one of `done`, `nothing to do`, `planned` (dry run), `declined`, `incomplete`, `not safe to stop`.
    `planned` is None where no plan was made. `brokers` are as last seen, `undo` is the command that takes the
    operation back. `steps` are left for a person. `record` is the operation's file, where it has one. The cluster has
    forgotten the `unregistered` brokers. The figures are those of this command: one that continues an operation does
    not add up what earlier ones did.
    """

    command: str
    verdict: str
    brokers: tuple[BrokerCounts, ...] = ()
    problems: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    record: str | None = None
    moves_sent: int = 0
    copied_bytes: int = 0
    leaders_passed: int = 0
    seconds: float = 0.0
    next_commands: tuple[str, ...] = ()
    undo: str | None = None
    planned: PlanSummary | None = None
    unregistered: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the command may exit with 0."""
        return not self.problems

    def plus(self, run: RunOutcome) -> "BrokerOutcome":
        """With the figures of one more run of a plan."""
        return replace(
            self,
            moves_sent=self.moves_sent + run.submitted,
            copied_bytes=self.copied_bytes + run.copied_bytes,
            seconds=self.seconds + run.seconds,
        )


def outcome_report(outcome: BrokerOutcome) -> Report:
    """The result of a command; what is not whole fails."""
    failure = None
    if outcome.verdict == "declined":
        failure = OperationFailedError("not confirmed, nothing was changed")
    elif not outcome.ok:
        verb = _verb(outcome)
        what = "not safe to stop" if outcome.verdict == "not safe to stop" else f"{verb} is not complete"
        failure = OperationFailedError(f"{what}: {outcome.problems[0]}", hint=next(iter(outcome.next_commands), None))
    return Report(
        command=f"broker {_verb(outcome)}",
        data=outcome_data(outcome),
        sections=outcome_sections(outcome),
        table=ResultTable(COLUMNS, outcome_rows(outcome)),
        failure=failure,
    )


def _verb(outcome: BrokerOutcome) -> str:
    return outcome.command if outcome.command == "rejoin" else BrokerOperationKind(outcome.command).verb


def outcome_sections(outcome: BrokerOutcome) -> Iterator[Part]:
    """The result for people; commands to paste stand on lines of their own."""
    yield _headline(outcome)
    for facts in outcome.brokers:
        late = f", {facts.out_of_sync} not in sync" if facts.out_of_sync else ""
        held = f"{count_of(facts.replicas, 'replica')}, {count_of(facts.leaders, 'leadership')}"
        yield f"broker {facts.broker}: {facts.state}, {held}{late}"
    if outcome.planned is not None:
        yield _planned_line(outcome.planned, outcome.command)
    if outcome.moves_sent or outcome.copied_bytes:
        sent = count_of(outcome.moves_sent, "request")
        time = format_rough_time(outcome.seconds)
        yield f"{sent} sent, {format_bytes(outcome.copied_bytes)} copied in {time}"
    if outcome.leaders_passed:
        yield f"{count_of(outcome.leaders_passed, 'leadership')} passed on by election"
    if outcome.unregistered:
        yield f"unregistered: broker {few_of(outcome.unregistered)}"
    yield Remarks("problem", outcome.problems)
    yield Remarks("caution", outcome.cautions)
    if outcome.record:
        yield f"record: {outcome.record}"
    yield NextCommands(outcome.steps, "left to do by hand:")
    yield NextCommands((outcome.undo,) if outcome.undo else (), "to move everything back:")
    yield NextCommands(outcome.next_commands)


def _planned_line(plan: PlanSummary, command: str) -> str:
    if command == BrokerOperationKind.LEADERS:
        return f"planned: {count_of(plan.partitions, 'replica list')} to reorder, no data moves"
    first = count_of(plan.leaders_first, "leader") if plan.leaders_first else "no leaders"
    return (
        f"planned: {count_of(plan.partitions, 'partition')}, {count_of(plan.copies, 'copy', 'copies')} "
        f"({format_bytes(plan.bytes)}); {first} to move first"
    )


def _headline(outcome: BrokerOutcome) -> str:
    brokers, several = few_of(b.broker for b in outcome.brokers), len(outcome.brokers) > 1
    if outcome.command == BrokerOperationKind.LEADERS:
        if outcome.verdict == "done":
            stay = " that another broker can lead" if outcome.cautions else ""
            return f"{'brokers' if several else 'broker'} {brokers} {'lead' if several else 'leads'} nothing{stay}"
        verdict = "plan" if outcome.verdict == "planned" else outcome.verdict
        return f"{verdict}: move leaderships off broker {brokers}"
    if outcome.verdict == "planned":
        return f"plan: {outcome.command} broker {brokers}"
    if outcome.verdict == "done":
        what = "rejoined" if outcome.command == "rejoin" else f"been {BrokerOperationKind(outcome.command).participle}"
        return f"{'brokers' if several else 'broker'} {brokers} {'have' if several else 'has'} {what}"
    return f"{outcome.verdict}: {outcome.command} broker {brokers}"


def outcome_data(outcome: BrokerOutcome) -> dict[str, object]:
    """The result for programs."""
    return {
        "verdict": outcome.verdict,
        "brokers": [attributes(b, "broker rack state replicas leaders out_of_sync") for b in outcome.brokers],
        "planned": None
        if outcome.planned is None
        else attributes(outcome.planned, "partitions copies bytes leaders_first"),
        **attributes(outcome, "problems cautions steps record moves_sent unregistered"),
        "bytes_copied": outcome.copied_bytes,
        "leaders_passed": outcome.leaders_passed,
        "seconds": round(outcome.seconds, 3),
        "next_commands": list(outcome.next_commands),
        "undo_command": outcome.undo,
    }


def outcome_rows(outcome: BrokerOutcome) -> tuple[tuple[object, ...], ...]:
    """One row a broker, in `COLUMNS`."""
    return tuple((b.broker, b.state.value, b.rack, b.replicas, b.leaders, b.out_of_sync) for b in outcome.brokers)


def cordon_report(
    verb: str, steps: Sequence[CordonStep], refused: Mapping[int, str], program: str, *, is_done: bool, dry_run: bool
) -> Report:
    """What `cordon` or `uncordon` did with each broker, or would do."""
    rows = [(s.broker, s.verdict.value, _setting_cell(s), s.mark.reason if s.mark else "", s.note) for s in steps]
    ids = ",".join(str(s.broker) for s in steps)
    is_planned = dry_run or not is_done
    sections: list[Part] = ["dry run, nothing is changed:"] if dry_run else []
    sections.append(
        ResultTable(
            ("broker", "planned" if is_planned else "result", "cordoned.log.dirs", "reason"),
            [(b, word, cell, sanitize(reason) or "-") for b, word, cell, reason, _ in rows],
        )
    )
    sections.append(Remarks("note", _notes_by_text(steps)))
    if verb == "cordon" and is_done:
        sections.append(NextCommands((str(shell_command("broker uncordon", ids, program=program)),), "to end it:"))
    return Report(
        command=f"broker {verb}",
        data={
            "brokers": [
                attributes(s, "broker note")
                | {
                    "verdict": s.verdict.value,
                    "reason": s.mark.reason if s.mark else "",
                    "log_dirs": None if s.change is None else s.change.value or "",
                    "refused": refused.get(s.broker),
                }
                for s in steps
            ],
            "done": is_done and not dry_run,
        },
        sections=sections,
        table=ResultTable(CORDON_COLUMNS, rows),
        failure=_cordon_failure(verb, steps, refused, program, declined=not is_done and not dry_run),
    )


def _setting_cell(step: CordonStep) -> str:
    if step.change is None:
        return "unchanged"
    return sanitize(step.change.value or "") if step.change.value is not None else "removed"


def _notes_by_text(steps: Sequence[CordonStep]) -> list[str]:
    by_text: dict[str, list[int]] = {}
    for step in steps:
        if step.note:
            by_text.setdefault(step.note, []).append(step.broker)
    return [f"broker {few_of(ids)}: {text}" for text, ids in by_text.items()]


def _cordon_failure(
    verb: str, steps: Sequence[CordonStep], refused: Mapping[int, str], program: str, *, declined: bool
) -> KafkakitError | None:
    if declined:
        return OperationFailedError("not confirmed, nothing was changed")
    if refused:
        broker, why = next(iter(sorted(refused.items())))
        kept = "; the mark for plans is set" if verb == "cordon" else "; the mark stays"
        again = shell_command(f"broker {verb}", ",".join(map(str, sorted(refused))), program=program)
        return OperationFailedError(
            f"broker {broker}: Kafka did not take cordoned.log.dirs: {why}{kept}", hint=f"to try again: {again}"
        )
    if waiting := [s.broker for s in steps if s.verdict is CordonVerdict.NOT_REACHED]:
        again = shell_command("broker uncordon", ",".join(map(str, waiting)), program=program)
        return TryLaterError(
            f"broker {few_of(waiting)} does not answer and stays cordoned", hint=f"when it is back: {again}"
        )
    return None


def restart_check_report(facts: RestartFacts, verdict: RestartVerdict, program: str) -> Report:
    """May brokers go down together now? For people 20 partitions that forbid it, for programs all."""
    rows = [(p.name, len(p.isr), p.left, p.min_isr, p.replicas, p.isr, p.obstacle.value) for p in verdict.partitions]
    table = ResultTable(VERDICT_COLUMNS, rows, empty="", most=SHOWN_PARTITIONS)
    return Report(
        command="broker restart-check",
        data=restart_check_data(facts, verdict),
        sections=_check_sections(facts, verdict, table, program),
        table=table,
        code=verdict.answer.code,
    )


def restart_gate_report(verdict: RestartVerdict, *, starting: bool = False) -> Report:
    """The answer of a gate that has opened."""
    if starting:
        several = len(verdict.brokers) > 1
        line = f"yes: {'brokers' if several else 'broker'} {few_of(verdict.brokers)} may start, all others are up"
        data = {"answer": verdict.answer.value, "brokers": list(verdict.brokers)}
        return Report(command="broker restart-gate", data=data, sections=(line,))
    return Report(
        command="broker restart-gate",
        data={"answer": verdict.answer.value, **attributes(verdict, "brokers stalled leaderless checked notes")},
        sections=(_answer_line(verdict), *_allowed_notes(verdict)),
    )


def _answer_line(verdict: RestartVerdict) -> str:
    several = len(verdict.brokers) > 1
    brokers = f"{'brokers' if several else 'broker'} {few_of(verdict.brokers)}"
    together = " together" if several else ""
    if verdict.answer is RestartAnswer.YES:
        checked = count_of(verdict.checked, "partition")
        return f"yes: {brokers} may go down{together} now ({checked} checked)"
    if verdict.answer is RestartAnswer.UNKNOWN:
        return f"not known: whether {brokers} may go down{together} now"
    found = [count_of(len(verdict.partitions), "partition")] if verdict.partitions else []
    found += [count_of(len(verdict.obstacles), "other obstacle")] if verdict.obstacles else []
    return f"no: {brokers} must not go down{together} now: {' and '.join(found)}"


def _allowed_notes(verdict: RestartVerdict) -> Iterator[Part]:
    notes = []
    if verdict.stalled:
        count = count_of(verdict.stalled, "partition")
        notes.append(f"{count} with no more replicas than min.insync.replicas: writes with acks=all stall meanwhile")
    if verdict.leaderless:
        notes.append(f"{count_of(verdict.leaderless, 'partition')} of these without a leader meanwhile")
    yield Remarks("note", (*notes, *verdict.notes))


def _check_sections(facts: RestartFacts, verdict: RestartVerdict, table: ResultTable, program: str) -> Iterator[Part]:
    yield _answer_line(verdict)
    yield Remarks("obstacle", verdict.obstacles)
    yield Remarks("not known", verdict.unknown)
    yield table
    yield from _allowed_notes(verdict)
    if verdict.answer is RestartAnswer.NO and len(verdict.brokers) > 1:
        listed, at_once = _joined_ids(verdict.brokers), len(verdict.brokers)
        plan = shell_command("broker restart-plan", program=program, brokers=listed, at_once=at_once)
        yield NextCommands((str(plan),), "to restart them in rounds:")
    elif verdict.answer is RestartAnswer.NO and facts.age_s is None:
        gate = shell_command("broker restart-gate", _joined_ids(verdict.brokers), program=program)
        yield NextCommands((str(gate),), "to wait until it may:")


def restart_check_data(facts: RestartFacts, verdict: RestartVerdict) -> dict[str, object]:
    """The answer for programs."""
    return {
        "cluster_id": facts.snapshot.cluster_id,
        "answer": verdict.answer.value,
        "brokers": list(verdict.brokers),
        "partitions": DeferredItems(
            lambda: (
                attributes(p, "topic partition replicas isr left min_isr") | {"why": p.obstacle.value}
                for p in verdict.partitions
            )
        ),
        **attributes(verdict, "obstacles unknown"),
        "moves": [attributes(m, "topic partition replicas adding removing") for m in verdict.moves],
        **attributes(verdict, "stalled leaderless checked notes"),
        "snapshot_age_s": None if facts.age_s is None else round(facts.age_s),
    }


def restart_plan_report(facts: RestartFacts, plan: RestartPlan, program: str) -> Report:
    """Rounds of brokers that may go down together, and the brokers that cannot be restarted now."""
    rows = [(n, len(r.brokers), r.rack, r.brokers) for n, r in enumerate(plan.rounds, 1)]
    table = ResultTable(ROUND_COLUMNS, rows, empty="")
    return Report(
        command="broker restart-plan",
        data=restart_plan_data(facts, plan),
        sections=_plan_sections(plan, table, program),
        table=table,
        code=plan.code,
    )


def _plan_sections(plan: RestartPlan, table: ResultTable, program: str) -> Iterator[Part]:
    rounds, brokers = len(plan.rounds), sum(len(r.brokers) for r in plan.rounds)
    racks = ", rack by rack" if plan.by_rack else ""
    proof = f"no plan has fewer than {plan.bound}" if rounds else "no broker can be restarted now"
    what = f"{count_of(rounds, 'round')} for {count_of(brokers, 'broker')}"
    yield f"{what}, at most {plan.at_once} at once{racks}; {proof}"
    yield table
    if any(r.has_controller for r in plan.rounds):
        yield f"round {rounds} has the active controller"
    yield ResultTable(
        ("broker", "why"), [(b.broker, b.reason) for b in plan.blocked], title="cannot be restarted now:", empty=""
    )
    yield Remarks("note", plan.notes)
    yield from _round_commands(plan.rounds, program)


def _round_commands(rounds: tuple[RestartRound, ...], program: str) -> Iterator[Part]:
    def command(verb: str, brokers: tuple[int, ...]) -> str:
        return str(shell_command(f"broker {verb}", _joined_ids(brokers), program=program))

    if not rounds:
        return
    yield NextCommands((command("restart-check", rounds[0].brokers),), "before round 1:")
    if len(rounds) > 1:
        what = "after round 1, before round 2 (and so on with each round):"
        yield NextCommands((command("restart-gate", rounds[1].brokers),), what)
    yield NextCommands((command("restart-gate", rounds[-1].brokers),), "after the last round, to see all back:")


def _joined_ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def restart_plan_data(facts: RestartFacts, plan: RestartPlan) -> dict[str, object]:
    """The plan for programs."""
    return {
        "cluster_id": facts.snapshot.cluster_id,
        **attributes(plan, "at_once bound by_rack"),
        "rounds": [attributes(r, "brokers rack has_controller") for r in plan.rounds],
        "blocked": [attributes(b, "broker reason is_unknown") for b in plan.blocked],
        **attributes(plan, "notes"),
        "snapshot_age_s": None if facts.age_s is None else round(facts.age_s),
    }


_SCRIPT = """\
#!/bin/sh
# @TITLE@
# The leaderships of a round go elsewhere before its pods do, and come back when its brokers are in sync again.
# Safe to run again from the start after a stop: pods of the StatefulSet's new revision are not replaced again.
set -eu

statefulset=@STATEFULSET@
seconds=@SECONDS@
at='before round 1'
trap 'code=$?; [ "$code" = 0 ] || echo "stopped $at (exit code $code); to go on, run this script again" >&2' EXIT

kube() {
    kubectl@NAMESPACE@ "$@"
}

fail() {
    code=$1
    shift
    echo "error: $*" >&2
    exit "$code"
}

of_set() {
    kube get statefulset "$statefulset" --output "jsonpath=$1" || fail 75 "kubectl cannot read StatefulSet $statefulset"
}

# Its owner, revision and readiness.
of_pod() {
    kube get pod "$1" --output 'jsonpath={.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name} \
{.metadata.labels.controller-revision-hash} {.status.conditions[?(@.type=="Ready")].status}'
}

# round NUMBER BROKERS POD...
round() {
    at="in round $1 of @ROUNDS@ (broker $2)"
    brokers=$2
    shift 2
    [ "$(of_set '{.status.updateRevision}')" = "$revision" ] ||
        fail 75 "StatefulSet $statefulset has changed since this script began"
    old=
    for pod in "$@"; do
        facts=$(of_pod "$pod") || fail 75 "kubectl cannot read pod $pod"
        case $facts in
            "StatefulSet/$statefulset $revision "*) echo "$pod is of the new revision already" ;;
            "StatefulSet/$statefulset "*) old="$old $pod" replaced=$((replaced + 1)) ;;
            *) fail 1 "pod $pod does not belong to StatefulSet $statefulset" ;;
        esac
    done
    if [ -n "$old" ]; then
        @GATE@
        @DRAIN@
        @GATE@
        @REPLACE@
    fi
    for pod in "$@"; do
        wait_for "$pod"
    done
    @REJOIN@
}

wait_for() {
    left=$seconds
    until of_pod "$1" 2> /dev/null | grep -qxF "StatefulSet/$statefulset $revision True"; do
        [ "$left" -gt 0 ] || fail 75 "pod $1 is not ready after $seconds seconds"
        sleep 2
        left=$((left - 2))
    done
}

strategy=$(of_set '{.spec.updateStrategy.type}')
[ "$strategy" = @STRATEGY@ ] || fail 1 "the update strategy of StatefulSet $statefulset is $strategy, not @STRATEGY@"
@CHECKS@revision=$(of_set '{.status.updateRevision}')
[ -n "$revision" ] || fail 75 "the status of StatefulSet $statefulset has no revision yet"
replaced=0
@CALLS@
at='after the last round'
@LAST@
echo "done: $replaced of @PODS@ pods replaced, all are of revision $revision, and all brokers are back"
[ "$replaced" -gt 0 ] || echo "for a new revision: kubectl@NAMESPACE@ rollout restart statefulset $statefulset"
"""

_DELETE = """# One word for each pod: names of pods have no blanks.
        # shellcheck disable=SC2086
        kube delete pod $old --timeout "${seconds}s\""""

_LOWER = """ordinal=${old##*-}
        now=$(of_set '{.spec.updateStrategy.rollingUpdate.partition}')
        [ "${now:-0}" -ge "$ordinal" ] ||
            fail 1 "partition is ${now:-0}, not above $ordinal: Kubernetes replaces pods without waiting"
        kube patch statefulset "$statefulset" --type merge \\
            --patch "{\\"spec\\":{\\"updateStrategy\\":{\\"rollingUpdate\\":{\\"partition\\":$ordinal}}}}\""""

_WHOLE = """pods=$(of_set '{.spec.replicas}')
[ "$pods" = @PODS@ ] || fail 1 "StatefulSet $statefulset has $pods pods, and the plan has @PODS@ brokers"
start=$(of_set '{.spec.ordinals.start}')
[ "${start:-0}" = 0 ] || fail 1 "the ordinals of StatefulSet $statefulset begin with $start, not 0"
"""


def restart_script_report(
    rounds: Sequence[Sequence[tuple[int, str]]],
    request: ScriptRequest,
    program: str,
    *,
    allow_offline_dirs: bool = False,
) -> Report:
    """The script, a file for `sh`; each round is of brokers and their pods."""
    text = restart_script(rounds, request, program, allow_offline_dirs=allow_offline_dirs)
    return files_report("broker restart-plan", "sh", {"rolling-restart.sh": text})


def restart_script(
    rounds: Sequence[Sequence[tuple[int, str]]],
    request: ScriptRequest,
    program: str,
    *,
    allow_offline_dirs: bool = False,
) -> str:
    """A POSIX shell script of the rounds, for pods that are replaced as the request says."""
    wait = f"{math.ceil(request.wait_s)}s"

    def gate(brokers: str) -> str:
        return str(
            shell_command(
                "broker restart-gate", brokers, program=program, allow_offline_dirs=allow_offline_dirs, timeout=wait
            )
        )

    drain = shell_command("broker drain", "IDS", program=program, leaders_only=True, ignore_warns=True, yes=True)
    rejoin = shell_command("broker rejoin", "IDS", program=program, restore="leaders", wait=wait, yes=True)
    pods = sum(len(each) for each in rounds)
    is_partition = request.kind is ScriptKind.PARTITION
    calls = [
        f"round {number} {_joined_ids(tuple(b for b, _ in each))} {' '.join(pod for _, pod in each)}"
        for number, each in enumerate(rounds, 1)
    ]
    parts = {
        "@CHECKS@": _WHOLE if is_partition else "",
        "@REPLACE@": _LOWER if is_partition else _DELETE,
        "@TITLE@": f"Restarts {count_of(pods, 'broker')} in {count_of(len(rounds), 'round')}; made by kafkakit.",
        "@STATEFULSET@": quote(request.statefulset),
        "@SECONDS@": wait[:-1],
        "@NAMESPACE@": f" --namespace {quote(request.namespace)}" if request.namespace else "",
        "@ROUNDS@": str(len(rounds)),
        "@GATE@": gate("IDS"),
        "@DRAIN@": str(drain),
        "@REJOIN@": str(rejoin),
        "@STRATEGY@": "" if request.kind is None else request.kind.strategy,
        "@PODS@": str(pods),
        "@CALLS@": "\n".join(calls),
        "@LAST@": gate(_joined_ids(tuple(b for b, _ in rounds[-1]))) if rounds else ":",
    }
    text = _SCRIPT
    for name, part in parts.items():
        text = text.replace(name, part.replace(" IDS", ' "$brokers"'))
    return text
