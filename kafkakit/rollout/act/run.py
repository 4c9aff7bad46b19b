"""A rollout: what is usual, then step by step; what is worse than usual is taken back."""

from collections.abc import Sequence

from kafkakit.core.errors import KafkakitError
from kafkakit.execution.act.received_requests import ReceivedRequests
from kafkakit.ports.reporter import Reporter
from kafkakit.rollout.act.journals import RolloutJournal
from kafkakit.rollout.act.watching import HealthWatch
from kafkakit.rollout.act.writing import SettingsWriter
from kafkakit.rollout.decide.journal import RolloutEnd, RolloutState
from kafkakit.rollout.decide.verdict import HealthVerdict

ABORTED = "aborted by an operator"


class AbortRequestedError(KafkakitError):
    """Another process asks the rollout to take its values back."""


class RolloutRun:
    """One rollout in progress, of a journal that has begun; every part continues where the journal ends."""

    def __init__(
        self,
        journal: RolloutJournal,
        writer: SettingsWriter,
        watch: HealthWatch,
        reporter: Reporter,
    ) -> None:
        self._journal, self._writer, self._watch, self._reporter = journal, writer, watch, reporter

    def forward(self) -> RolloutState:
        """Carry out the steps that are left; a bad verdict, a refusal or a request to abort takes everything back."""
        state = self._journal.rollout
        if state.end is not None:
            return state
        if state.is_back:
            return self.back(state.reasons)
        try:
            if state.baseline is None:
                self._journal.usual(self._watch.past())
                if problem := self._watch.problem_of(self._journal.rollout.baseline or {}):
                    return self.back([problem])
            for number, step in enumerate(state.plan.steps):
                if number in state.passed:
                    continue
                self._reporter.say(f"step {number + 1} of {len(state.plan.steps)}: {step.name}")
                problems = self._writer.carry_out(step)
                if problems:
                    return self.back(problems)
                verdict = self._watch.window_after(
                    self._journal.rollout.baseline or {}, step.name, restarted=step.restart
                )
                if verdict.is_bad:
                    return self.back([f"after {step.name}: {reason}" for reason in verdict.reasons])
                self._journal.passed(number, verdict)
                self._reporter.say(f"  {_words(verdict)}")
        except AbortRequestedError as request:
            return self.back([request.message])
        self._journal.ended(RolloutEnd.APPLIED)
        return self._journal.rollout

    def back(self, reasons: Sequence[str]) -> RolloutState:
        """Take back every value that is still of this rollout, and say why."""
        if not self._journal.rollout.is_back or self._journal.rollout.end is not None:
            self._journal.turn_back(reasons)
        for reason in reasons:
            self._reporter.warn(reason)
        self._reporter.say("taking back what was set")
        left = self._writer.take_back(self._journal.rollout.touched)
        self._journal.ended(RolloutEnd.INCOMPLETE if left else RolloutEnd.TAKEN_BACK, left)
        return self._journal.rollout


def abort_check(requests: ReceivedRequests) -> None:
    """Raise `AbortRequestedError` when another process asked for it, and answer that it is done."""
    request = requests.read()
    if request is not None and request.abort:
        requests.answer()
        raise AbortRequestedError(f"{ABORTED}: {request.by}")


def _words(verdict: HealthVerdict) -> str:
    rows = [f"{r.signal.value} {r.seen:.4g} (limit {r.limit:.4g})" for r in verdict.rows]
    return f"{verdict.health.value} after {verdict.looks} looks: {', '.join(rows)}"
