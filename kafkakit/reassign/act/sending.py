"""Sending steps of a schedule: what may go now is checked once more, throttled, given its dir, and submitted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.log_dir_moves import DirWork
from kafkakit.execution.decide.precheck import Live, ids, listed
from kafkakit.execution.decide.progress import Look, sources_told, without_source
from kafkakit.execution.decide.rates import is_unlimited
from kafkakit.execution.decide.run_state import (
    Context,
    Lists,
    RoundState,
    foreign_of,
    goal_of,
    may_start,
    obstacle,
    settle,
    work_of,
)
from kafkakit.execution.decide.schedule.work import Rates, StepKind
from kafkakit.reassign.act.parts import RunParts

ROUNDS = 20  # times that what may start is asked for in one tick, while some of it is held back

Dirs = Mapping[int, BrokerLogDirs]


class Sending:
    """Sends what may start; `held` are the steps that could start but for a reason of their own, by reason."""

    def __init__(self, parts: RunParts) -> None:
        self._reporter, self._reader, self._request = parts.reporter, parts.reader, parts.request
        self._problems, self._moves = parts.problems, parts.moves
        self._throttles, self._dirs = parts.throttles, parts.dirs
        self.submitted = 0
        self.held: dict[str, list[TopicPartition]] = {}
        self.waits_for_others = False
        self.others: tuple[TopicPartition, ...] = ()  # whose moves, not ours, take places that steps wait for
        self._sourceless: dict[TopicPartition, tuple[int, ...]] = {}
        self._told: set[str] = set()

    def send(
        self, round_state: RoundState, live: Live, dirs: Dirs, context: Context, seen: Look
    ) -> tuple[RoundState, int]:
        """Send all that may start now; returns the state after it, and how many steps were sent."""
        self.held, self.waits_for_others, self._sourceless = {}, False, {}
        round_state = self._heed_others(round_state, live, context.ours)
        before = len(round_state.flying) + len(round_state.done)
        passed: set[int] = set()
        for _ in range(ROUNDS):
            numbers = may_start(round_state, live, dirs, context, hopeless=seen.hopeless, passed=passed)
            if not numbers:
                break
            live = self._reader.with_states(live, {round_state.schedule.steps[n].key for n in numbers})
            inside = [n for n in numbers if round_state.schedule.steps[n].kind is StepKind.INSIDE]
            round_state, goals = self._fit(round_state, [n for n in numbers if n not in set(inside)], live)
            round_state, goals = self._within_lists(round_state, goals, context.rates)
            round_state = self._submit(round_state, goals, context.rates, live)
            round_state = self._send_inside(round_state, inside, context.rates, live)
            # What is held back must not keep its places from others: ask again without it.
            held = round_state.waiting_set.intersection(numbers)
            if not held - passed:
                break
            passed |= held
        self._note_others(round_state, live)
        return round_state, len(round_state.flying) + len(round_state.done) - before

    def _heed_others(self, round_state: RoundState, live: Live, ours: Lists) -> RoundState:
        """Moves of another process on partitions that wait: they are waited for, or these partitions are given up."""
        waiting = {
            round_state.schedule.steps[n].key for n in round_state.waiting if round_state.schedule.steps[n].target
        }
        waiting -= {g.key for g in round_state.moves.values()}
        foreign = foreign_of(live, waiting & live.running.keys(), ours)
        if not foreign:
            return round_state
        if self._request.wait_for_others:
            self.waits_for_others = True
            for key in sorted(foreign):
                self._hold("waiting for the end of a move that another process makes", key)
            return round_state
        for key, target in sorted(foreign.items()):
            self._problems.append(f"{key} is being moved to {ids(target)} by another process; it is left alone")
        return settle(round_state, keys=foreign.keys())

    def _note_others(self, round_state: RoundState, live: Live) -> None:
        """Say it when nothing of ours is in flight, and moves of others are, to brokers that steps wait for."""
        wanted = {p.broker for n in round_state.waiting for p in round_state.schedule.steps[n].adding}
        busy = [k for k, r in sorted(live.running.items()) if not wanted.isdisjoint(r.adding)]
        self.others = () if round_state.flying else tuple(busy)
        if self.others:
            self._tell(f"moves that are not ours keep the brokers busy: {listed([str(k) for k in self.others])}")

    def held_words(self) -> list[str]:
        """Why steps that could start do not, one sentence a reason."""
        words = [f"{reason}: {listed([str(k) for k in keys])}" for reason, keys in sorted(self.held.items())]
        if self._sourceless:
            words.append(f"no live source, nothing can be copied: {sources_told(self._sourceless)}")
        return words

    def _fit(self, round_state: RoundState, numbers: Iterable[int], live: Live) -> tuple[RoundState, dict[int, Goal]]:
        """The goals of those steps that nothing is against; others wait, or are given up with a problem."""
        goals: dict[int, Goal] = {}
        dropped: set[TopicPartition] = set()
        for number in numbers:
            key = round_state.schedule.steps[number].key
            problem = obstacle(round_state, number, live)
            if problem is not None:
                self._problems.append(problem)
                dropped.add(key)
                continue
            goal = goal_of(round_state, number, live)
            dead = [b for b in goal.adding if not live.is_alive(b)]
            sourceless = without_source([goal], live)
            if dead:
                self._hold(f"broker {dead[0]} is not alive; no more moves are sent to it", key)
            elif sourceless:
                self._sourceless |= sourceless
                self._tell(f"no live source, waiting for one: {sources_told(sourceless)}")
            else:
                goals[number] = goal
        return (settle(round_state, keys=dropped) if dropped else round_state), goals

    def _within_lists(
        self, round_state: RoundState, goals: Mapping[int, Goal], rates: Rates | None
    ) -> tuple[RoundState, dict[int, Goal]]:
        """Those goals whose throttle entries fit into their topics' lists now."""
        if rates is None or is_unlimited(rates) or not goals:
            return round_state, dict(goals)
        capacity = self._throttles.list_capacity(list(goals.values()), rates)
        for key, reason in sorted(capacity.blocked.items()):
            self._problems.append(f"{key} cannot be throttled and is left alone: {reason}")
        fits = {g.key for g in capacity.fits}
        round_state = settle(round_state, keys=set(capacity.blocked)) if capacity.blocked else round_state
        return round_state, {n: g for n, g in goals.items() if g.key in fits}

    def _submit(
        self, round_state: RoundState, goals: Mapping[int, Goal], rates: Rates | None, live: Live
    ) -> RoundState:
        if not goals:
            return round_state
        if rates is not None:
            self._throttles.impose(list(goals.values()), rates, live)
        self._dirs.assign(list(goals.values()))
        refused = self._moves.submit(list(goals.values()))
        sent = {n: g for n, g in goals.items() if g.key not in refused}
        self.submitted += len(sent)
        self._problems += [f"{key} was not accepted: {error}" for key, error in sorted(refused.items())]
        if refused:
            self._throttles.lift_entries([g for g in goals.values() if g.key in refused])
            round_state = settle(round_state, keys=set(refused))
        return replace(round_state, moves={**round_state.moves, **sent})

    def _send_inside(
        self, round_state: RoundState, numbers: Sequence[int], rates: Rates | None, live: Live
    ) -> RoundState:
        """Tell brokers to move copies between their dirs."""
        works: dict[int, DirWork] = {}
        for number in numbers:
            work = work_of(round_state.schedule.steps[number])
            if live.is_alive(work.replica.broker):
                works[number] = work
            else:
                self._hold(f"broker {work.replica.broker} is not alive; its copies stay in their log dirs", work.key)
        if not works:
            return round_state
        if rates is not None:
            self._throttles.impose_inside({w.replica.broker for w in works.values()}, rates, live)
        refused = self._dirs.send(list(works.values()))
        for replica, error in sorted(refused.items()):
            name = f"{replica.topic}-{replica.partition} on broker {replica.broker}"
            self._problems.append(f"log dir move refused: {name} ({error})")
        sent = {n: w for n, w in works.items() if w.replica not in refused}
        round_state = replace(round_state, inside={**round_state.inside, **sent})
        failed = [n for n in works if n not in sent]
        return settle(round_state, dropped=failed) if failed else round_state

    def _hold(self, reason: str, key: TopicPartition) -> None:
        self.held.setdefault(reason, []).append(key)
        if reason not in self._told:
            self._told.add(reason)
            self._reporter.warn(f"{reason}: {key}")

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._reporter.warn(line)
