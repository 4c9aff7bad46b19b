"""`kafkakit broker`: empty a broker (`drain`), `replace` it, `decommission` it for good, bring it back (`rejoin`).

`cordon` and `uncordon` say whether brokers get new replicas; `restart-check`, `restart-plan` and `restart-gate` say
which brokers may go down together. The options of every run are in `cli/run_options.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.broker.decide.operation import BrokerOperationKind, ElectionPace, OperationGoal, broker_ids
from kafkakit.broker.decide.restarts import ScriptRequest
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.completion import BROKER_CHOICE, BROKER_IDS
from kafkakit.cli.context import given_words
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent, ExecutionOptions
from kafkakit.core.options import (
    Completion,
    duration_option,
    not_typed,
    option,
    required_argument,
    required_option,
    typed_as,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kafkakit.broker.decide.cordons import CordonFacts, CordonStep
    from kafkakit.broker.decide.operation import BrokerOperation
    from kafkakit.broker.decide.restarts import RestartFacts
    from kafkakit.cli.context import CliContext

MOST_AT_ONCE = 10_000
app = new_group("Drain, replace, decommission, rejoin and safely restart brokers.")

Comers = Annotated[str, typer.Argument(**BROKER_IDS, help="The brokers that came back.")]
Replacement = Annotated[
    OperationGoal,
    typed_as(
        brokers=required_argument(
            parse=partial(broker_ids, flag="OLD", most=1),
            metavar="ID",
            completion=Completion.BROKERS,
            help="The broker to replace; it may be dead.",
        ),
        onto=required_option(
            "--with",
            parse=lambda text: broker_ids(text, "--with", most=1)[0],
            metavar="ID",
            completion=Completion.BROKERS,
            help="The broker that takes its place.",
        ),
        receiving=not_typed(None),
        exclude_receivers=not_typed(None),
        spread=not_typed(False),
        ignore_warns=not_typed(False),
        leaders_only=not_typed(False),
    ),
]
WholeGoal = Annotated[OperationGoal, typed_as(leaders_only=not_typed(False))]


Strimzi = Annotated[
    str,
    typer.Option(
        "--strimzi",
        metavar="[NAMESPACE/]CLUSTER/POOL",
        help="Do nothing; print the KafkaRebalance with which Strimzi empties the brokers itself.",
        show_default=False,
    ),
]


@with_option_groups
def drain(ctx: typer.Context, goal: OperationGoal, execution: ExecutionOptions, strimzi: Strimzi = "") -> int | None:
    """Move everything off brokers: leaderships first, then every replica, and verify that none is left.

    Plans like `topicmappr drain`, shows the plan and its forecast, asks for confirmation, and carries it out like
    `reassign apply`. It can be stopped at any time and run again: it resumes. Exits with 0 only when the brokers
    hold and lead nothing.

    With --leaders-only no data moves, such as before a restart: each leadership goes to another replica in sync. If
    there is none, nothing is done and the exit code is 1; --ignore-warns moves the others.

    Examples:

    \b
    kafkakit --profile prod broker drain 1004 --dry-run
    kafkakit --profile prod broker drain 1004 --throttle 20MB
    kafkakit --profile prod broker drain 1004,1007 --to 1001,1002,1003 --yes
    kafkakit --profile prod broker drain 1004 --leaders-only --yes
    kafkakit --profile prod broker drain 4 --strimzi prod/brokers | kubectl apply -f -
    """
    from dataclasses import replace as replace_fields

    if strimzi:
        return _print_strimzi(ctx, "broker drain", strimzi, goal)
    if not goal.leaders_only:
        _move(ctx, BrokerOperationKind.DRAIN, goal, execution)
        return None
    rules = replace_fields(execution.rules, ingest_sample_s=0.0)  # nothing is copied
    _move(ctx, BrokerOperationKind.LEADERS, goal, replace_fields(execution, rules=rules))
    return None


@with_option_groups
def replace(ctx: typer.Context, goal: Replacement, execution: ExecutionOptions) -> None:
    """Move every replica of one broker to another, each to the same place of its list.

    Once its copies are in sync, the new broker also leads where the old one was the preferred leader. Exits with 4
    when the new broker's rack or disks do not allow it, or when it holds a copy of one of the partitions already.
    Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker replace 1004 --with 1009 --dry-run
    kafkakit --profile prod broker replace 1004 --with 1009 --throttle 20MB --yes
    """
    _move(ctx, BrokerOperationKind.REPLACE, goal, execution)


@with_option_groups
def decommission(ctx: typer.Context, goal: WholeGoal, execution: ExecutionOptions, strimzi: Strimzi = "") -> int | None:
    """Drain brokers, report whether they may be stopped for good, and unregister those that are stopped.

    Brokers may be stopped when they hold no replica, lead no partition and do not report to be controllers.
    Cautions name what the cluster cannot do without them. Planning commands leave the brokers out from the start on.
    Once their processes are stopped, the same command again takes them off the cluster's list. Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker decommission 1004 --dry-run
    kafkakit --profile prod broker decommission 1004 --throttle 20MB
    """
    if strimzi:
        return _print_strimzi(ctx, "broker decommission", strimzi, goal)
    _move(ctx, BrokerOperationKind.DECOMMISSION, goal, execution)
    return None


def _print_strimzi(ctx: typer.Context, command: str, text: str, goal: OperationGoal) -> int:
    from kafkakit.cli.session import finish
    from kafkakit.core.text import shell_command
    from kafkakit.kubernetes.operators import parse_target, removal_command, strimzi_plan
    from kafkakit.report.report import RawDocument, Report

    cli, target = cli_context(ctx), parse_target(text, "--strimzi")
    manifest, removal = strimzi_plan(target, goal.brokers), removal_command(target, goal.brokers)
    listed = ",".join(map(str, goal.brokers))
    cordon = str(shell_command("broker cordon", listed, program=cli.program))
    cli.output.say("note: Strimzi decides itself what goes where; options of the plan have no effect")
    cli.output.say(f"before it, so that no new topic comes meanwhile:\n{cordon}")
    cli.output.say(f"before the replicas of the pool are lowered, so that it loses these brokers:\n{removal}")
    data = {"manifest": manifest, "cordon_command": cordon, "removal_command": removal}
    return finish(cli, Report(command=command, data=data, sections=(RawDocument(manifest),)))


_PLANNING = ("to", "exclude_receivers", "placement", "min_rack_ids", "spread", "onto", "ignore_warns", "leaders_only")


def _move(ctx: typer.Context, kind: BrokerOperationKind, goal: OperationGoal, execution: ExecutionOptions) -> None:
    from dataclasses import replace as replace_fields

    from kafkakit.broker.act.move_off import MoveOff, ReassignRunner
    from kafkakit.broker.act.operation_files import Elections, Unregister, open_records, operation_lock
    from kafkakit.broker.decide.operation import base_name
    from kafkakit.broker.decide.plans import MoveRequest
    from kafkakit.broker.report import outcome_report
    from kafkakit.cli.run_options import read_plan, run_request
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.text import ShellCommand, shell_command
    from kafkakit.wiring import write_file

    cli, consent = cli_context(ctx), execution.consent
    state_dir = cli.settings.state_dir
    goal = goal.recorded(kind, execution.rates.throttle)
    listed = goal.words["brokers"]
    typed = (*given_words(ctx), "--yes")
    again = str(ShellCommand(f"broker {kind.verb}", (listed,), program=cli.program, typed=typed))
    back = [*given_words(ctx, _PLANNING), "--yes"]
    cli.operation_words = (f"stopped; the {kind.verb} is not finished", f"to resume: {again}")
    with open_session(cli, read_only=True) as session:
        cluster_id = session.cluster_id
        execution.others.require_quiet(cli, cluster_id, dry_run=consent.dry_run)
        records = open_records(state_dir, cluster_id, write_file, session.clock, lambda: session.control_view)
        if not consent.dry_run:
            session.lock(*operation_lock(state_dir, cluster_id, base_name(kind, goal.brokers, goal.onto)))
        if goal.leaders_only:
            _warn_leaders_away(cli, [o for o in records.leaders_away(goal.brokers) if o.brokers != goal.brokers])

        def undo_of(operation: BrokerOperation) -> str:
            record = str(records.path_of(operation))
            made = shell_command("broker rejoin", listed, program=cli.program, restore=record)
            return str(replace_fields(made, typed=tuple(back)))

        request = MoveRequest(
            kind=kind,
            goal=goal,
            again=again,
            undo_of=undo_of,
            cleanup=str(shell_command("reassign cleanup", program=cli.program, yes=True)),
            confirm=partial(consent.confirm_on, cli, cluster_id),
            bootstrap=cli.settings.bootstrap_servers,
            asks=not consent.yes,
            dry_run=consent.dry_run,
        )
        template = run_request(cli, None, cluster_id, replace_fields(execution, consent=Consent(yes=True)))
        access = partial(open_access, cli, cluster_id=cluster_id, without_lease=execution.rules.without_lease)
        runner = ReassignRunner(
            records, state_dir, cli.output, template, access, read_plan, again=again, undo_of=undo_of
        )
        elections = Elections(partial(access, f"broker {kind.verb}"), cli.output, ElectionPace(), request.retry_limit_s)
        unregister = Unregister(partial(access, "broker decommission"), cli.output, request.retry_limit_s)
        outcome = MoveOff(
            session.admin,
            session.clock,
            cli.output,
            records,
            runner,
            elections,
            request,
            unregister=unregister,
            planning=partial(answered_at_once, None),
        ).run()
    finish(cli, outcome_report(outcome))


app.command("drain", cls=CliCommand, short_help="Move everything off brokers, and verify that nothing is left.")(drain)
app.command("replace", cls=CliCommand, short_help="Move every replica of one broker to another.")(replace)
app.command("decommission", cls=CliCommand, short_help="Drain brokers and report whether they may be stopped.")(
    decommission
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejoinOptions:
    """What is taken back, how long brokers may take, and how fast leaderships pass."""

    restore: str = option(
        "",
        metavar="RECORD",
        help="Undo the operation of this record, the file that `drain` printed at its end; `last`: the last one "
        "on exactly these brokers; `leaders`: the last `drain --leaders-only` of them, if there is one.",
    )
    wait_s: float = duration_option(
        "30m", "--wait", help="How long to wait for the brokers, and then for their copies."
    )
    pace: ElectionPace = ElectionPace()


@app.command("rejoin", cls=CliCommand, short_help="Return brokers to service, with their leaderships.")
@with_option_groups
def rejoin(ctx: typer.Context, brokers: Comers, options: RejoinOptions, execution: ExecutionOptions) -> None:
    """Return brokers to service that were down or drained, and move their leaderships back in groups.

    Waits until they are registered and unfenced and every copy on them is in sync, then elects them where they are
    the preferred leader. With --restore the plans of a drain are rolled back first: every replica returns, in the
    old order. If it was stopped, run it again: it does what is left. Exits with 75 when a broker or a copy is not
    there in time.

    Examples:

    \b
    kafkakit --profile prod broker rejoin 1004
    kafkakit --profile prod broker rejoin 1004 --leaders-at-once 10 --leaders-pause 30s --yes
    kafkakit --profile prod broker rejoin 1004 --restore last --throttle 20MB
    """
    from dataclasses import replace as replace_fields

    from kafkakit.broker.act.move_off import ReassignRunner, Rejoin
    from kafkakit.broker.act.operation_files import Elections, open_records, operation_lock
    from kafkakit.broker.decide.operation import base_name
    from kafkakit.broker.decide.plans import RejoinRequest
    from kafkakit.broker.report import outcome_report
    from kafkakit.cli.run_options import read_plan, run_request
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.text import shell_command
    from kafkakit.wiring import write_file

    cli, consent = cli_context(ctx), execution.consent
    state_dir = cli.settings.state_dir
    ids = broker_ids(brokers, "ID")
    listed = ",".join(map(str, ids))
    command = shell_command("broker rejoin", listed, program=cli.program)
    again = str(replace_fields(command, typed=(*given_words(ctx), "--yes")))
    request = RejoinRequest(
        brokers=ids,
        again=again,
        confirm=lambda question: consent.confirm_on(cli, cluster_id, question),
        wait_s=options.wait_s,
        asks=not consent.yes,
        dry_run=consent.dry_run,
    )
    cli.operation_words = ("stopped; the rejoin is not finished", f"to resume: {again}")
    with open_session(cli, read_only=True) as session:
        cluster_id = session.cluster_id
        execution.others.require_quiet(cli, cluster_id, dry_run=consent.dry_run)
        records = open_records(state_dir, cluster_id, write_file, session.clock, lambda: session.control_view)
        if not consent.dry_run:
            session.lock(*operation_lock(state_dir, cluster_id, f"rejoin-{listed[:80]}"))
        record = records.to_restore(options.restore, ids)
        _warn_leaders_away(cli, [o for o in records.leaders_away(ids) if record is None or o.name != record.name])
        if record is not None:  # by its path: another operation may be the last one by then
            named = (("--restore", str(records.path_of(record))),)
            typed = (*given_words(ctx, ("restore",)), "--yes")
            again = str(replace_fields(command, options=named, typed=typed))
            request = replace_fields(request, again=again)
            cli.operation_words = ("stopped; the rejoin is not finished", f"to resume: {again}")
        if record is not None and not consent.dry_run:  # its own command must not be running on it
            session.lock(*operation_lock(state_dir, cluster_id, base_name(record.kind, record.brokers, record.onto)))
        template = run_request(cli, None, cluster_id, replace_fields(execution, consent=Consent(yes=True)))
        access = partial(open_access, cli, cluster_id=cluster_id, without_lease=execution.rules.without_lease)
        runner = ReassignRunner(
            records, state_dir, cli.output, template, access, read_plan, again=again, undo_of=lambda _: again
        )
        elections = Elections(partial(access, "broker rejoin"), cli.output, options.pace, request.retry_limit_s)
        rejoining = Rejoin(session.admin, session.clock, cli.output, records, runner, elections, request)
        outcome = rejoining.run(record)
    finish(cli, outcome_report(outcome))


def _warn_leaders_away(cli: CliContext, operations: Sequence[BrokerOperation]) -> None:
    """Say which earlier drains of leaderships are not taken back, and how to do that."""
    from kafkakit.core.text import few_of, shell_command

    for operation in operations:
        listed = ",".join(map(str, operation.brokers))
        back = shell_command("broker rejoin", listed, program=cli.program, restore="leaders", yes=True)
        cli.output.warn(
            f"leaderships that were moved off broker {few_of(operation.brokers)} are not back; to move them: {back}"
        )


Cordoned = Annotated[list[str], typer.Argument(**BROKER_IDS, help="The brokers; they may be down.")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for those who read lists and plans.", show_default=False)
]


@app.command("cordon", cls=CliCommand, short_help="Give brokers no new replica; what they hold stays.")
@with_option_groups
def cordon(ctx: typer.Context, brokers: Cordoned, consent: Consent, reason: Reason = "") -> int:
    """Keep new replicas off brokers, in every plan and every topic that kafkakit creates. What they hold stays.

    They may still lead. The mark is in the control store of the profile; by default that is one of this host only.
    Brokers of Kafka 4.3 and later also get cordoned.log.dirs=*, which Kafka's own placement obeys. Run again, it does
    what is left.

    Examples:

    \b
    kafkakit --profile prod broker cordon 1004 --reason 'disk swap on Monday'
    kafkakit --profile prod broker cordon 1004,1007 --dry-run
    """
    from kafkakit.broker.decide.cordons import check_reason, decide_cordon

    text = check_reason(reason)
    return _write_cordons(
        cli_context(ctx), "cordon", brokers, consent, lambda facts, by, now: decide_cordon(facts, text, by, now)
    )


@app.command("uncordon", cls=CliCommand, short_help="Let brokers get new replicas again.")
@with_option_groups
def uncordon(ctx: typer.Context, brokers: Cordoned, consent: Consent) -> int:
    """End what `broker cordon` began: cordoned.log.dirs becomes what it was before, and the mark goes.

    What somebody else set before or since stays, which is said. Exits with 75 when a broker does not answer whose
    setting is to be restored: it stays cordoned.

    Examples:

    \b
    kafkakit --profile prod broker uncordon 1004
    """
    from kafkakit.broker.decide.cordons import decide_uncordon

    return _write_cordons(cli_context(ctx), "uncordon", brokers, consent, lambda facts, by, now: decide_uncordon(facts))


def _write_cordons(
    cli: CliContext,
    verb: str,
    brokers: list[str],
    consent: Consent,
    decide: Callable[[CordonFacts, str, datetime], CordonStep],
) -> int:
    from kafkakit.broker.act.operation_files import CordonWriter
    from kafkakit.broker.report import cordon_report
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.text import few_of

    ids = _several_ids(brokers)
    with open_session(cli, read_only=consent.dry_run) as session:
        cluster_id, clock = session.cluster_id, session.clock
        store = session.control_view if consent.dry_run else session.control
        writer = CordonWriter(session.admin, clock, cli.output, store, cluster_id)
        facts = writer.facts(ids, marked=verb == "uncordon")
        steps = [decide(facts[b], session.requester, clock.now()) for b in sorted(facts)]
        changing = [step.broker for step in steps if step.changes]
        question = f"{verb.capitalize()} broker{'s' if len(changing) > 1 else ''} {few_of(changing)}?"
        is_told = not changing or (not consent.dry_run and consent.confirm_on(cli, cluster_id, question))
        refused = {}
        if is_told and changing:
            refused = writer.cordon(steps) if verb == "cordon" else writer.uncordon(steps)
    return finish(cli, cordon_report(verb, steps, refused, cli.program, is_done=is_told, dry_run=consent.dry_run))


Chosen = Annotated[list[str], typer.Argument(**BROKER_IDS, help="The brokers that are to go down together.")]
Snapshot = Annotated[
    Path | None, typer.Option(help="Read this cluster-snapshot file instead of a live cluster.", metavar="FILE")
]
OfflineDirs = Annotated[
    bool,
    typer.Option(
        "--allow-offline-dirs",
        help="Allow it for brokers with an offline log dir, such as after its disk was replaced.",
    ),
]


@app.command("restart-check", cls=CliCommand, short_help="May these brokers go down together now?")
@with_option_groups
def restart_check(
    ctx: typer.Context, brokers: Chosen, snapshot: Snapshot = None, allow_offline_dirs: OfflineDirs = False
) -> int:
    """Say whether brokers may go down together now, with the partitions that forbid it.

    A partition with more replicas than min.insync.replicas forbids it if fewer than that are in sync, or would be.
    So do running moves to or from the brokers, offline log dirs, and too few controllers left. Exits with 0 for yes,
    1 for no, 75 if it is not known. Reads only.

    Examples:

    \b
    kafkakit --profile prod broker restart-check 1004
    kafkakit --profile prod broker restart-check 1001,1004,1007 -o json
    kafkakit broker restart-check 1004 --snapshot prod.json
    """
    from kafkakit.broker.act.restarts import read_restart_facts
    from kafkakit.broker.decide.restarts import judge_restart
    from kafkakit.broker.report import restart_check_report
    from kafkakit.cli.session import finish, open_session

    cli, ids = cli_context(ctx), _several_ids(brokers)
    with open_session(cli, read_only=True) as session:
        facts = read_restart_facts(session, snapshot)
    cli.cluster_id = facts.snapshot.cluster_id
    facts.require_known(ids)
    verdict = judge_restart(facts, ids, allow_offline_dirs=allow_offline_dirs)
    return finish(cli, restart_check_report(facts, verdict, cli.program))


def _several_ids(words: list[str]) -> tuple[int, ...]:
    return broker_ids(",".join(words), "ID", most=MOST_AT_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartChoice:
    """Which brokers are to be restarted, and how many at once."""

    everything: bool = option(False, "--all", help="All brokers.")
    rack: str = option("", "--rack", metavar="RACK", help="The brokers of this rack.")
    brokers: str = option("", "--brokers", **BROKER_CHOICE, help="These brokers.")
    at_once: int = option(1, "--at-once", min=1, metavar="N", help="At most this many brokers in a round.")

    def resolve(self, facts: RestartFacts) -> tuple[int, ...]:
        """The ids; `UsageError` for a choice that is empty or names what there is not."""
        from kafkakit.core.errors import UsageError
        from kafkakit.core.query import brokers_where
        from kafkakit.core.selection import parse_broker_list
        from kafkakit.core.text import few_of, shown_name

        if sum(map(bool, (self.everything, self.rack, self.brokers))) != 1:
            raise UsageError("give one of --all, --rack RACK and --brokers BROKERS")
        known = facts.table.brokers.tolist()
        if self.everything:
            return tuple(known)
        if self.rack:
            found = tuple(b.id for b in facts.snapshot.brokers if b.rack == self.rack)
            if not found:
                racks = sorted({shown_name(b.rack) for b in facts.snapshot.brokers if b.rack})
                raise UsageError(f"no broker is in rack {self.rack!r}", hint=f"the racks are {few_of(racks)}")
            return found
        wanted = parse_broker_list(self.brokers, "--brokers")
        if wanted.where is not None:
            ids = tuple(sorted(brokers_where(facts.snapshot, wanted.where, missing=True)))
        else:
            holding = frozenset(facts.table.brokers[facts.table.replica_at].tolist())
            ids = wanted.resolve(holding, frozenset(known))
        facts.require_known(ids)
        if not ids:
            raise UsageError("--brokers names no broker", hint=f"the brokers are {few_of(known)}")
        return ids


@app.command("restart-plan", cls=CliCommand, short_help="Plan rounds of brokers that may go down together.")
@with_option_groups
def restart_plan(
    ctx: typer.Context,
    choice: RestartChoice,
    script: ScriptRequest,
    snapshot: Snapshot = None,
    allow_offline_dirs: OfflineDirs = False,
) -> int:
    """Plan a rolling restart: the fewest rounds of brokers that may go down together, and a proven bound.

    Each round is allowed by `restart-check` as long as all brokers are back in sync before it, which `restart-gate`
    waits for. Rack by rack if that takes no more rounds; the active controller is in the last round. Exits with 1
    when brokers cannot be restarted now, which are listed with the reason, and with 75 when that is not known.

    --script prints a POSIX shell script that does it with kubectl, round by round: wait for the gate, move leaderships
    away, replace the pods, wait until they are ready, move leaderships back. It can be run again after a stop.

    Examples:

    \b
    kafkakit --profile prod broker restart-plan --all --at-once 3
    kafkakit --profile prod broker restart-plan --rack a --at-once 10
    kafkakit broker restart-plan --all --at-once 3 --snapshot prod.json -o json
    kafkakit --profile prod broker restart-plan --all --at-once 3 --script on-delete --statefulset kafka > restart.sh
    """
    from kafkakit.broker.act.restarts import read_restart_facts
    from kafkakit.broker.decide.restarts import plan_restarts, script_rounds
    from kafkakit.broker.report import restart_plan_report, restart_script_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    script.require_complete(from_file=snapshot is not None)
    with open_session(cli, read_only=True) as session:
        facts = read_restart_facts(session, snapshot)
    if script.kind is None:  # else the script is all that is printed
        cli.cluster_id = facts.snapshot.cluster_id
    ids = choice.resolve(facts)
    plan = plan_restarts(facts, ids, choice.at_once, allow_offline_dirs=allow_offline_dirs)
    if script.kind is not None:
        rounds = script_rounds(facts, plan, script)
        made = restart_script_report(rounds, script, cli.program, allow_offline_dirs=allow_offline_dirs)
        return finish(cli, made)
    return finish(cli, restart_plan_report(facts, plan, cli.program))


@app.command("restart-gate", cls=CliCommand, short_help="Wait until these brokers may go down together.")
@with_option_groups
def restart_gate(
    ctx: typer.Context,
    brokers: Chosen,
    allow_offline_dirs: OfflineDirs = False,
    starting: Annotated[
        bool,
        typer.Option(
            "--starting",
            help="For an init container of these brokers: wait only until all others are up, with enough in sync.",
        ),
    ] = False,
) -> int:
    """Wait until all brokers are up and `restart-check` allows these to go down; for scripts and preStop hooks.

    Exits with 0 then, and with 75 when that does not come about within --timeout (10 minutes if it is not given), or
    the cluster does not answer. Each new reason to wait is a line on stderr. Reads only.

    With --starting the brokers themselves may be down or new. The cluster is away as well while all brokers start, so
    an init container has to go on at 75.

    Examples:

    \b
    kafkakit --profile prod broker restart-gate 1004 --timeout 15m
    kafkakit --profile prod broker restart-gate 1001,1004,1007 && kubectl delete pod kafka-1 kafka-4 kafka-7
    kafkakit --profile prod broker restart-gate 1004 --starting --timeout 30s
    """
    from kafkakit.broker.act.restarts import GATE_LIMIT_S, wait_for_gate
    from kafkakit.broker.report import restart_gate_report
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.text import shell_command

    cli, ids = cli_context(ctx), _several_ids(brokers)
    check = str(shell_command("broker restart-check", ",".join(map(str, ids)), program=cli.program))
    if starting:
        check = str(shell_command("status", program=cli.program))

    def say(line: str) -> None:
        cli.output.say(line)
        cli.operation_words = (f"the gate is closed: {line.removeprefix('waiting: ')}", check)

    cli.operation_words = ("the gate is closed: the cluster has not answered yet", check)
    limit_s = GATE_LIMIT_S if cli.timeout_s is None else cli.timeout_s
    with open_session(cli, read_only=True) as session:
        verdict = wait_for_gate(session, ids, limit_s, say, allow_offline_dirs=allow_offline_dirs, starting=starting)
        cli.cluster_id = session.cluster_id
    return finish(cli, restart_gate_report(verdict, starting=starting))
