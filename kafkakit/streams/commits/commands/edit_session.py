"""One command that edits commits at work: connecting, locking, planning, asking, telling the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from kafkakit.cli.command_classes import Kit

if TYPE_CHECKING:
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.clock import Clock
    from kafkakit.ports.groups import GroupAdmin
    from kafkakit.ports.log import LogReader
    from kafkakit.streams.commits.act.edit_journals import EditJournal, Edits
    from kafkakit.streams.commits.act.edit_observation import Observer, Scope
    from kafkakit.streams.commits.decide.editing.journal import Opening
    from kafkakit.streams.commits.decide.editing.outcome import EditOutcome
    from kafkakit.streams.commits.decide.editing.plan import EditPlan
    from kafkakit.streams.commits.decide.editing.request import EditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Whether a plan is carried out: `again` is the command that applies it, `expect` the plan that it must be."""

    apply: bool
    yes: bool
    again: str
    expect: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One cluster with its groups and logs, and this host's journals of edits there."""

    kit: Kit
    groups: GroupAdmin
    log: LogReader
    clock: Clock
    cluster_id: str
    observer: Observer
    edits: Edits

    def ways_on(self, journal: str) -> str:
        """The commands that finish or undo an interrupted edit."""
        from shlex import quote

        base = f"{self.kit.program} streams commits"
        return f"finish it: {base} finish {quote(journal)} --apply; or undo it: {base} undo {quote(journal)} --apply"


def consent_of(ctx: typer.Context, kit: Kit, verb: str, argument: str, given: Mapping[str, Any]) -> Consent:
    """The consent that a command's parameters give, by name."""
    from shlex import quote

    from kafkakit.cli.command_line import given_words

    words = given_words(ctx, ("apply", "expect"))
    return Consent(
        apply=given["apply"],
        yes=given["yes"],
        expect=given["expect"],
        reason=given.get("reason", ""),
        again=" ".join([kit.program, "streams commits", verb, quote(argument), *words]),
    )


def check_consent(kit: Kit, consent: Consent) -> None:
    """Refuse at once where a question would have to be asked and nobody can answer."""
    from kafkakit.core.errors import RefusedError, UsageError

    if consent.apply and not consent.yes and not kit.input_allowed:
        raise RefusedError("confirmation needed, and nobody can be asked here", hint="pass --yes")
    if not consent.apply and consent.yes:
        raise UsageError("--yes does nothing without --apply", hint="add --apply to carry the plan out")


@contextmanager
def open_desk(kit: Kit, *, writes: bool) -> Iterator[Desk]:
    """Connect; only with `writes` by a client that can write."""
    from contextlib import ExitStack, closing

    from kafkakit.core.cluster_id import cluster_id_problem
    from kafkakit.core.errors import InputError
    from kafkakit.streams.commits.act.edit_journals import Edits, edits_folder
    from kafkakit.streams.commits.act.edit_observation import Observer
    from kafkakit.wiring import open_admin, open_groups, open_log, system_clock

    with ExitStack() as stack:
        admin = stack.enter_context(closing(open_admin(kit.settings, read_only=True)))
        cluster_id = admin.cluster().cluster_id
        if problem := cluster_id_problem(cluster_id):
            raise InputError("the cluster", problem)
        groups = stack.enter_context(closing(open_groups(kit.settings, read_only=not writes)))
        log = stack.enter_context(closing(open_log(kit.settings)))
        clock = system_clock()
        yield Desk(
            kit=kit,
            groups=groups,
            log=log,
            clock=clock,
            cluster_id=cluster_id,
            observer=Observer(groups, log, cluster_id=cluster_id, limit_chars=_limit(admin)),
            edits=Edits(edits_folder(kit.settings.state_dir, cluster_id), clock),
        )


def edit(kit: Kit, group: str, scope: Scope, request: EditRequest, words: tuple[str, ...], consent: Consent) -> None:
    """Plan an edit, show it, and with consent carry it out."""
    from kafkakit.streams.commits.decide.editing.decision import decide_edit, times_wanted
    from kafkakit.streams.commits.decide.editing.request import times_of

    check_consent(kit, consent)
    with open_desk(kit, writes=consent.apply) as desk, alone(desk, group, consent):
        observed = desk.observer.look(group, scope, times_of(request.verb), desk.clock.now())
        plan = decide_edit(observed, request, words)
        if wanted := times_wanted(plan):
            plan = decide_edit(observed.with_times(desk.observer.record_times(wanted)), request, words)
        check_expected(plan, consent)
        _check_no_interrupted(desk, group, consent)
        outcome = settle(desk, plan, consent, desk.edits.begin(plan.verb, group), opening_of(desk, plan, consent))
    if outcome is not None:
        tell(kit, outcome, undo=f"{kit.program} streams commits undo last --group {_quoted(group)} --apply")


def settle(
    desk: Desk, plan: EditPlan, consent: Consent, journal: EditJournal, opening: Opening | None
) -> EditOutcome | None:
    """Print the plan, or ask and carry it out; None where only the plan was asked for."""
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.act.editing import Editor
    from kafkakit.streams.commits.decide.editing.outcome import EditOutcome
    from kafkakit.streams.commits.show.edits import COLUMNS, plan_data, render_plan, rows_of

    kit = desk.kit
    if not consent.apply:
        command = f"{consent.again} --apply --expect {plan.fingerprint}"
        kit.output.result(
            Report(
                command=f"streams commits {plan.verb}",
                data={**plan_data(plan), "next": command if plan.changes else None},
                text=render_plan(plan, command),
                columns=COLUMNS,
                rows=rows_of(plan),
            )
        )
        return None
    if not plan.changes:
        return EditOutcome(plan=plan)
    kit.output.say(render_plan(plan))
    if not consent.yes and not kit.output.ask_typed(f"Write this to cluster {desk.cluster_id}?"):
        return EditOutcome(plan=plan, declined=True)
    return Editor(desk.groups, desk.log, kit.output, desk.ways_on).carry_out(plan, journal, opening)


def tell(kit: Kit, outcome: EditOutcome, undo: str = "") -> None:
    """Print the result; what is not whole ends with exit code 1."""
    from kafkakit.core.errors import OperationFailedError
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.show.edits import COLUMNS, outcome_data, render_outcome, rows_of

    kit.output.result(
        Report(
            command=f"streams commits {outcome.plan.verb}",
            data=outcome_data(outcome),
            text=render_outcome(outcome, undo if outcome.journal and not outcome.failed else ""),
            columns=COLUMNS,
            rows=rows_of(outcome.plan, outcome.results),
        )
    )
    if outcome.declined:
        raise OperationFailedError("not confirmed, nothing was changed")
    if outcome.failed:
        first = outcome.failed[0]
        raise OperationFailedError(
            f"{len(outcome.failed)} of {len(outcome.results)} commits are not as planned: "
            f"{first.partition}: {first.problem}",
            hint="look at the group again, then plan anew; undo takes back what was written",
        )


@contextmanager
def alone(desk: Desk, group: str, consent: Consent) -> Iterator[None]:
    """Keep other edits of the group on this host off; a plan alone takes no lock and leaves no file."""
    if not consent.apply:
        yield
        return
    from kafkakit.adapters.lock import FileLock
    from kafkakit.adapters.own_process import this_holder
    from kafkakit.streams.commits.act.edit_journals import short_name
    from kafkakit.streams.formats.printable import printable

    path = desk.kit.settings.state_dir / "locks" / f"{desk.cluster_id}.commits-{short_name(group)}.lock"
    with FileLock(path, f"commits of group {printable(group)}", str(this_holder("streams commits"))):
        yield


def opening_of(desk: Desk, plan: EditPlan, consent: Consent) -> Opening:
    """The first line of the plan's journal: whose edit it is, and why."""
    from kafkakit.adapters.own_process import this_holder
    from kafkakit.streams.commits.decide.editing.journal import Opening

    holder = this_holder(f"streams commits {plan.verb}")
    return Opening(
        cluster_id=plan.cluster_id,
        group=plan.group,
        verb=plan.verb,
        who=f"{holder.user}@{holder.host}",
        words=plan.words,
        reason=consent.reason,
        fingerprint=plan.fingerprint,
        request_id=plan.request_id,
        undoes=plan.undoes,
    )


def check_expected(plan: EditPlan, consent: Consent) -> None:
    """Refuse a plan that is not the one that was shown."""
    from kafkakit.core.errors import RefusedError

    if consent.expect and consent.expect != plan.fingerprint:
        raise RefusedError(
            f"the plan is {plan.fingerprint} now, not {consent.expect}: the group's commits or the logs changed",
            hint="look at the plan again, without --apply",
        )


def _check_no_interrupted(desk: Desk, group: str, consent: Consent) -> None:
    from kafkakit.core.errors import RefusedError
    from kafkakit.streams.formats.printable import printable

    interrupted = desk.edits.interrupted(group)
    if not interrupted:
        return
    words = f"an edit of group {printable(group)} was interrupted"
    if consent.apply:
        raise RefusedError(words, hint=desk.ways_on(interrupted[0]))
    desk.kit.output.warn(f"{words}; {desk.ways_on(interrupted[0])}")


def _limit(admin: ClusterAdmin) -> int:
    """The strictest `offset.metadata.max.bytes` of the brokers; Kafka's default where nobody tells."""
    from kafkakit.core.errors import OperationFailedError
    from kafkakit.streams.commits.decide.headroom import LIMIT_KEY, read_limits

    ids = sorted(broker.id for broker in admin.cluster().brokers)
    try:
        answers = admin.broker_settings(ids, [LIMIT_KEY])
    except OperationFailedError:  # no right to read configurations
        answers = {}
    return read_limits(answers, ids).strictest


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
