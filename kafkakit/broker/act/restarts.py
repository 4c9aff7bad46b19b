"""Reading what a decision about restarts rests on, and waiting until brokers may go down."""

from collections.abc import Callable, Collection
from pathlib import Path

from kafkakit.broker.decide.restarts import (
    RestartAnswer,
    RestartFacts,
    RestartVerdict,
    explain_absent,
    explain_trouble,
    judge_restart,
    restart_table,
)
from kafkakit.core.errors import ConnectRefusedError, TryLaterError
from kafkakit.core.text import ToldOnce
from kafkakit.ports.acting import Clock, look_until
from kafkakit.topicmappr.api_act import ObservingSession, observe

GATE_EVERY_S = 5.0
GATE_LIMIT_S = 600.0
"""How long a gate waits unless it is told another time."""


def read_restart_facts(session: ObservingSession, path: Path | None) -> RestartFacts:
    """Read the cluster now, with the log dirs of all brokers, or the snapshot file at `path`.

    Log dirs show topics that this user may not see, which are an error then: they might forbid a restart.
    """
    snapshot = observe(session, path)
    table = restart_table(snapshot)
    if path is not None:
        age_s = (session.clock.now() - snapshot.taken_at).total_seconds()
        return RestartFacts(snapshot=snapshot, table=table, age_s=age_s)
    quorum = session.admin.quorum()
    active = session.admin.cluster().controller_id if quorum is None else quorum.leader
    return RestartFacts(snapshot=snapshot, table=table, quorum=quorum, controller=active)


def wait_for_gate(
    session: ObservingSession,
    ids: Collection[int],
    limit_s: float,
    say: Callable[[str], object],
    *,
    allow_offline_dirs: bool = False,
    starting: bool = False,
) -> RestartVerdict:
    """Look again and again until all brokers are up and these may go down; each other reason is told once.

    For brokers that are `starting` it is only asked whether the cluster has trouble elsewhere; they may be unknown.
    Raises `TryLaterError` with the last reason after the limit, and at once what does not go away by itself, such as a
    login that is refused at the first look.
    """
    reasons = ToldOnce(say)
    clock: Clock = session.clock
    has_answered = False

    def look() -> tuple[RestartVerdict | None, str]:
        nonlocal has_answered
        try:
            facts = read_restart_facts(session, None)
        except TryLaterError as error:
            if isinstance(error, ConnectRefusedError) and not has_answered:
                raise
            verdict, reason = None, error.message
        else:
            has_answered = True
            if starting:
                reason = explain_trouble(facts, ids)
                verdict = RestartVerdict(brokers=tuple(sorted(set(ids))), answer=RestartAnswer.YES)
            else:
                facts.require_known(ids)
                verdict = judge_restart(facts, ids, allow_offline_dirs=allow_offline_dirs)
                reason = explain_absent(facts.awaited(ids)) or verdict.reason
        if reason:
            reasons.tell(f"waiting: {reason}")
        return verdict, reason

    verdict, reason = look_until(clock, limit_s, look, lambda seen: not seen[1], GATE_EVERY_S)
    if verdict is None or reason or verdict.answer is not RestartAnswer.YES:
        raise TryLaterError(f"the gate is closed: {reason}")
    return verdict
