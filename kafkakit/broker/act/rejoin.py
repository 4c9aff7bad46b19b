"""`broker rejoin`: wait for a broker and its copies, take an operation back if asked, give leaderships back slowly."""

from dataclasses import replace

from kafkakit.broker.act.elections import Elections
from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.holdings import Holdings, holdings_of
from kafkakit.broker.decide.operation import LegState, Operation, Stage
from kafkakit.broker.decide.request import PlanRunner, RejoinRequest
from kafkakit.broker.show import BrokerOutcome
from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import BrokerState, TopicPartition
from kafkakit.core.quantities import counted
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.decide.outcome import Direction
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter

LOOK_EVERY_S = 2.0


class Rejoin:
    """One `rejoin`; looks first at every step, so that a second run only does what is left. `admin` is only read."""

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        reporter: Reporter,
        records: Records,
        plans: PlanRunner,
        elections: Elections,
        request: RejoinRequest,
    ) -> None:
        self._admin, self._clock, self._reporter, self._records = admin, clock, reporter, records
        self._plans, self._elections, self._request = plans, elections, request
        self._retrier = Retrier(clock, reporter, request.retry_limit_s)
        self._sum = BrokerOutcome(command="rejoin", verdict="")

    def run(self, record: Operation | None = None) -> BrokerOutcome:
        """Bring the brokers back in; with a `record` its plans are taken back, the last first.

        Raises `TryLaterError` when brokers or copies are not there in time, and what `reassign.act.Run` raises.
        """
        if record is not None:
            self._require_fitting(record)
        now = self._look()
        strangers = [b.broker for b in now.brokers if b.state is BrokerState.MISSING and not b.replicas]
        if strangers and record is None:
            raise UsageError(f"broker {some(strangers)} is not in this cluster", hint="check the id")
        back = record is not None and record.stage is not Stage.UNDONE
        if not (back or now.absent or now.lagging or now.due):
            if not self._request.dry_run:
                self._take_in()
            return self._told("nothing to do", now)
        self._announce(now, record if back else None)
        if self._request.dry_run:
            return self._told("planned", now)
        if not self._request.confirm(f"Rejoin broker {some(self._request.brokers)}?"):
            return self._told("declined", now)
        self._wait_alive()
        if record is not None and back:
            problems = self._undo(record)
            if problems:
                return self._told("incomplete", self._look(), problems)
        held = self._wait_in_sync()
        problems = self._elections.give(held.due)
        if not problems:
            self._sum = replace(self._sum, leaders_passed=len(held.due))
        self._take_in()
        last = self._look()
        if not problems and last.due:
            problems = (f"preferred leaderships on other brokers again: {some(last.due)}",)
        return self._told("incomplete" if problems else "done", last, problems)

    def _take_in(self) -> None:
        """Have planners use the brokers again."""
        if back := self._records.note_rejoined(self._request.brokers):
            self._reporter.say(f"broker {some(back)} is no longer left out of plans")

    def _require_fitting(self, record: Operation) -> None:
        live = self._retrier.call("reading the cluster", self._admin.cluster).cluster_id
        if record.cluster_id != live:
            raise RefusedError(f"the record is of cluster {record.cluster_id}, this is {live}", hint="check --profile")
        if set(record.brokers) != set(self._request.brokers):
            raise UsageError(
                f"the record is of broker {some(record.brokers)}, not {some(self._request.brokers)}",
                hint="name just the brokers of the record",
            )

    def _announce(self, now: Holdings, record: Operation | None) -> None:
        for facts in now.brokers:
            late = f", {counted(facts.out_of_sync, 'copy', 'copies')} to catch up" if facts.out_of_sync else ""
            self._reporter.say(f"broker {facts.broker}: {facts.state}, {counted(facts.replicas, 'replica')}{late}")
        if now.due:
            self._reporter.say(f"{counted(len(now.due), 'preferred leadership')} will come back")
        if record is None:
            return
        legs = [
            leg
            for leg in record.legs
            if leg.state is not LegState.UNDONE and not self._plans.ended(leg, Direction.ROLLBACK)
        ]
        self._reporter.say(f"{counted(len(legs), 'plan')} of {self._records.path_of(record)} will be rolled back")
        last = next((leg for leg in reversed(legs) if self._plans.begun(leg)), None)
        forecast = self._request.dry_run or self._request.asks  # without a question the run itself prints it
        if forecast and last is not None and not now.absent:
            self._plans.run(record, last, Direction.ROLLBACK, dry_run=True)

    def _undo(self, record: Operation) -> tuple[str, ...]:
        """Roll the plans back, the last first; those that were never begun changed nothing."""
        record = self._records.save(replace(record, stage=Stage.UNDOING))
        while (place := record.last_to_undo) is not None:
            leg = record.legs[place]
            # What `reassign resume` finished is not done again: its partitions may have moved since.
            if self._plans.begun(leg) and not self._plans.ended(leg, Direction.ROLLBACK):
                ended = self._plans.run(record, leg, Direction.ROLLBACK)
                self._sum = self._sum.plus(ended)
                if not ended.ok:
                    return (*ended.problems, *ended.owed)
            record = self._records.save(record.with_leg(place, LegState.UNDONE))
        self._records.save(replace(record, stage=Stage.UNDONE))
        return ()

    def _wait_alive(self) -> None:
        deadline = self._clock.monotonic() + self._request.wait_s
        wanted = self._request.brokers
        with self._reporter.progress("waiting for brokers to be registered and unfenced") as bar:
            while absent := self._absent():
                if self._clock.monotonic() > deadline:
                    raise TryLaterError(
                        f"not alive yet: broker {some(absent)}", hint=f"start it, then run: {self._request.again}"
                    )
                bar.update(len(wanted) - len(absent), len(wanted))
                self._clock.sleep(LOOK_EVERY_S)

    def _absent(self) -> list[str]:
        """The brokers that are not there, each with the state that the cluster tells."""
        listed = self._retrier.call("reading the cluster", self._admin.cluster).brokers
        known = {b.id: b for b in listed}
        return [
            f"{b} ({known[b].state if b in known else BrokerState.MISSING})"
            for b in self._request.brokers
            if b not in known or not known[b].is_alive
        ]

    def _wait_in_sync(self) -> Holdings:
        """Wait for every copy; between two looks at everything only topics that lag are read."""
        deadline = self._clock.monotonic() + self._request.wait_s
        with self._reporter.progress("waiting for copies to be in sync") as bar:
            while lagging := (now := self._look()).lagging:
                first = len(lagging)
                while lagging:
                    if self._clock.monotonic() > deadline:
                        raise TryLaterError(
                            f"{counted(len(lagging), 'partition')} not in sync yet: {some(lagging)}",
                            hint=f"to resume: {self._request.again}",
                        )
                    bar.update(first - len(lagging), first, f"{len(lagging)} partitions to go")
                    self._clock.sleep(LOOK_EVERY_S)
                    lagging = self._lagging(lagging)
        return now

    def _lagging(self, keys: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        states = self._retrier.call("reading topics", lambda: self._admin.partition_states({k.topic for k in keys}))
        mine = frozenset(self._request.brokers)
        return tuple(k for k in keys if k in states and not mine.intersection(states[k].replicas) <= {*states[k].isr})

    def _look(self) -> Holdings:
        snapshot = self._retrier.call(
            "reading the cluster", lambda: self._admin.snapshot(now=self._clock.now(), sizes=False)
        )
        return holdings_of(snapshot, self._request.brokers)

    def _told(self, verdict: str, seen: Holdings, problems: tuple[str, ...] = ()) -> BrokerOutcome:
        return replace(
            self._sum,
            verdict=verdict,
            brokers=seen.brokers,
            problems=problems,
            next_commands=(self._request.again,) if problems else (),
        )
