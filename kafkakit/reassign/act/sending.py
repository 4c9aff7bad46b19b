"""Sending steps of a schedule: what may go now is checked once more, throttled, given its dir, and submitted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.log_dir_moves import LogDirs
from kafkakit.execution.act.retrier import Lookout
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.log_dir_moves import DirWork
from kafkakit.execution.decide.outcome import Request
from kafkakit.execution.decide.precheck import Live, ids, listed
from kafkakit.execution.decide.progress import Look, sources_told, without_source
from kafkakit.execution.decide.rates import is_unlimited
from kafkakit.execution.decide.run_state import (
    Board,
    Context,
    Lists,
    foreign_of,
    goal_of,
    may_start,
    obstacle,
    settle,
    work_of,
)
from kafkakit.execution.decide.schedule.work import Rates, StepKind
from kafkakit.ports.reporter import Reporter
from kafkakit.reassign.act.moves import Moves

ROUNDS = 20  # times that what may start is asked for in one tick, while some of it is held back

Dirs = Mapping[int, BrokerLogDirs]


class Sending:
    """Sends what may start; `held` are the steps that could start but for a reason of their own, by reason."""

    def __init__(
        self,
        voice: Reporter,
        lookout: Lookout,
        moves: Moves,
        throttles: Throttles,
        dirs: LogDirs,
        request: Request,
        problems: list[str],
    ) -> None:
        self._voice, self._lookout, self._request, self._problems = voice, lookout, request, problems
        self._moves, self._throttles, self._dirs = moves, throttles, dirs
        self.submitted = 0
        self.held: dict[str, list[TopicPartition]] = {}
        self.waits_for_others = False
        self.others: tuple[TopicPartition, ...] = ()  # whose moves, not ours, take places that steps wait for
        self._sourceless: dict[TopicPartition, tuple[int, ...]] = {}
        self._told: set[str] = set()

    def send(self, board: Board, live: Live, dirs: Dirs, context: Context, seen: Look) -> tuple[Board, int]:
        """Send all that may start now; returns the board after it, and how many steps were sent."""
        self.held, self.waits_for_others, self._sourceless = {}, False, {}
        board = self._heed_others(board, live, context.ours)
        before = len(board.flying) + len(board.done)
        passed: set[int] = set()
        for _ in range(ROUNDS):
            numbers = may_start(board, live, dirs, context, hopeless=seen.hopeless, passed=passed)
            if not numbers:
                break
            live = self._lookout.with_states(live, {board.schedule.steps[n].key for n in numbers})
            inside = [n for n in numbers if board.schedule.steps[n].kind is StepKind.INSIDE]
            board, goals = self._fit(board, [n for n in numbers if n not in set(inside)], live)
            board, goals = self._room(board, goals, context.rates)
            board = self._submit(board, goals, context.rates, live)
            board = self._send_inside(board, inside, context.rates, live)
            # What is held back must not keep its places from others: ask again without it.
            held = board.waiting_set.intersection(numbers)
            if not held - passed:
                break
            passed |= held
        self._note_others(board, live)
        return board, len(board.flying) + len(board.done) - before

    def _heed_others(self, board: Board, live: Live, ours: Lists) -> Board:
        """Moves of somebody else on partitions that wait: they are waited for, or these partitions are given up."""
        waiting = {board.schedule.steps[n].key for n in board.waiting if board.schedule.steps[n].target}
        waiting -= {g.key for g in board.moves.values()}
        foreign = foreign_of(live, waiting & live.running.keys(), ours)
        if not foreign:
            return board
        if self._request.wait_for_others:
            self.waits_for_others = True
            for key in sorted(foreign):
                self._hold("waiting for the end of a move that somebody else makes", key)
            return board
        for key, target in sorted(foreign.items()):
            self._problems.append(f"{key} is being moved to {ids(target)} by somebody else; it is left alone")
        return settle(board, keys=foreign.keys())

    def _note_others(self, board: Board, live: Live) -> None:
        """Say it when nothing of ours is in flight, and moves of others are, to brokers that steps wait for."""
        wanted = {p.broker for n in board.waiting for p in board.schedule.steps[n].adding}
        busy = [k for k, r in sorted(live.running.items()) if not wanted.isdisjoint(r.adding)]
        self.others = () if board.flying else tuple(busy)
        if self.others:
            self._tell(f"moves that are not ours keep the brokers busy: {listed([str(k) for k in self.others])}")

    def held_words(self) -> list[str]:
        """Why steps that could start do not, one sentence a reason."""
        words = [f"{reason}: {listed([str(k) for k in keys])}" for reason, keys in sorted(self.held.items())]
        if self._sourceless:
            words.append(f"no live source, nothing can be copied: {sources_told(self._sourceless)}")
        return words

    def _fit(self, board: Board, numbers: Iterable[int], live: Live) -> tuple[Board, dict[int, Goal]]:
        """The goals of those steps that nothing is against; others wait, or are given up with a problem."""
        goals: dict[int, Goal] = {}
        dropped: set[TopicPartition] = set()
        for number in numbers:
            key = board.schedule.steps[number].key
            problem = obstacle(board, number, live)
            if problem is not None:
                self._problems.append(problem)
                dropped.add(key)
                continue
            goal = goal_of(board, number, live)
            dead = [b for b in goal.adding if not live.is_alive(b)]
            sourceless = without_source([goal], live)
            if dead:
                self._hold(f"broker {dead[0]} is not alive; no more moves are sent to it", key)
            elif sourceless:
                self._sourceless |= sourceless
                self._tell(f"no live source, waiting for one: {sources_told(sourceless)}")
            else:
                goals[number] = goal
        return (settle(board, keys=dropped) if dropped else board), goals

    def _room(self, board: Board, goals: Mapping[int, Goal], rates: Rates | None) -> tuple[Board, dict[int, Goal]]:
        """Those goals whose throttle entries fit into their topics' lists now."""
        if rates is None or is_unlimited(rates) or not goals:
            return board, dict(goals)
        room = self._throttles.room(list(goals.values()), rates)
        for key, reason in sorted(room.blocked.items()):
            self._problems.append(f"{key} cannot be throttled and is left alone: {reason}")
        fits = {g.key for g in room.fits}
        board = settle(board, keys=set(room.blocked)) if room.blocked else board
        return board, {n: g for n, g in goals.items() if g.key in fits}

    def _submit(self, board: Board, goals: Mapping[int, Goal], rates: Rates | None, live: Live) -> Board:
        if not goals:
            return board
        if rates is not None:
            self._throttles.impose(list(goals.values()), rates, live)
        self._dirs.wish(list(goals.values()))
        refused = self._moves.submit(list(goals.values()))
        sent = {n: g for n, g in goals.items() if g.key not in refused}
        self.submitted += len(sent)
        self._problems += [f"{key} was not accepted: {error}" for key, error in sorted(refused.items())]
        if refused:
            self._throttles.lift_entries([g for g in goals.values() if g.key in refused])
            board = settle(board, keys=set(refused))
        return replace(board, moves={**board.moves, **sent})

    def _send_inside(self, board: Board, numbers: Sequence[int], rates: Rates | None, live: Live) -> Board:
        """Tell brokers to move copies between their dirs."""
        works: dict[int, DirWork] = {}
        for number in numbers:
            work = work_of(board.schedule.steps[number])
            if live.is_alive(work.replica.broker):
                works[number] = work
            else:
                self._hold(f"broker {work.replica.broker} is not alive; its copies stay in their log dirs", work.key)
        if not works:
            return board
        if rates is not None:
            self._throttles.impose_inside({w.replica.broker for w in works.values()}, rates, live)
        refused = self._dirs.send(list(works.values()))
        for replica, error in sorted(refused.items()):
            name = f"{replica.topic}-{replica.partition} on broker {replica.broker}"
            self._problems.append(f"log dir move refused: {name} ({error})")
        sent = {n: w for n, w in works.items() if w.replica not in refused}
        board = replace(board, inside={**board.inside, **sent})
        failed = [n for n in works if n not in sent]
        return settle(board, dropped=failed) if failed else board

    def _hold(self, reason: str, key: TopicPartition) -> None:
        self.held.setdefault(reason, []).append(key)
        if reason not in self._told:
            self._told.add(reason)
            self._voice.warn(f"{reason}: {key}")

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._voice.warn(line)
