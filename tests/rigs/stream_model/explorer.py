"""All executions of a failover with at most so many deviations, each state once.

A deviation is a crash after a change, an answer that is lost, a call that fails, an event of the world, or another
process that takes over. One life of a process is run again from its beginning for each deviation more; what it leaves
is the world from which the next process continues with the same command.
"""

import pickle
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from unittest.mock import patch

from kafkakit.streams.failover.act import run as run_module
from tests.rigs.stream_model.checker import Checker, ViolationError, require
from tests.rigs.stream_model.process import Life, LifeEnd, Point, Pruned
from tests.rigs.stream_model.world import EVENTS, EXCUSES, Scenario, World, resources

MOST_LIVES = 20
POLL_S = 1.0
FAILING_READS = frozenset({"spans", "committed", "committed_by", "groups", "get", "describe_acls", "registrations"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A world in which a process begins a command, or without a command a process before one of its turns.

    `left` are the deviations that may still come, `path` those that came, and `came_from` the state before.
    """

    kept: bytes
    command: str
    left: int
    path: tuple[str, ...]
    deviations: Mapping[int, str] = field(default_factory=dict)
    came_from: int | None = None

    @property
    def last(self) -> int:
        """The call of the last deviation."""
        return max(self.deviations, default=-1)


@dataclass(kw_only=True)
class Exploration:
    """What was explored. More deviations left come first, so that every state is met first with the most of them.

    `after` is the state that follows each one without a deviation: where that leads in a circle, nothing ever ends.
    """

    scenario: Scenario
    depth: int
    most_failures: int = 1
    deadline_s: float | None = None
    seen: set[int] = field(default_factory=set)
    after: dict[int, int] = field(default_factory=dict)
    paths: dict[int, tuple[str, ...]] = field(default_factory=dict)
    lives: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    is_cut: bool = False
    _waiting: dict[int, list[Work]] = field(default_factory=dict)

    def explore(self) -> None:
        """Explore everything, or until there are enough failures. Between two looks at what is waited for is 1 s."""
        with patch.object(run_module, "POLL_S", POLL_S):
            self._explore()

    def _explore(self) -> None:
        self._waiting = {left: [] for left in range(self.depth + 1)}
        self._add(Work(kept=World(scenario=self.scenario).kept(), command="run", left=self.depth, path=()))
        for left in range(self.depth, -1, -1):
            while self._waiting[left] and not self._is_over:
                work = self._waiting[left].pop()
                try:
                    self._do(work)
                except Pruned:
                    continue
                except ViolationError as violation:
                    self._fail(violation, work.path)
        self._look_for_circles()

    @property
    def words(self) -> str:
        """One line."""
        ends = ", ".join(f"{count:,} {word}" for word, count in sorted(self.ends.items()))
        counts = f"{len(self.seen):,} states, {self.lives:,} lives of a process ({ends})"
        return f"{self.scenario.name}, {self.depth} deviations: {counts}{', cut' if self.is_cut else ''}"

    @property
    def _is_over(self) -> bool:
        if self.deadline_s is not None and time.monotonic() > self.deadline_s:
            self.is_cut = True
        return self.is_cut or len(self.failures) >= self.most_failures

    def _fail(self, violation: ViolationError, path: tuple[str, ...]) -> None:
        self.failures.append(f"{violation} after {list(path)}")
        self.broken.add(violation.name)

    def _add(self, work: Work) -> None:
        self._waiting[work.left].append(work)

    def _note(self, key: int, came_from: int | None) -> int:
        """A state is reached: `Pruned` where it was before."""
        if came_from is not None:
            self.after[came_from] = key
        if key in self.seen:
            raise Pruned
        self.seen.add(key)
        return key

    def _do(self, work: Work) -> None:
        """One life of a process, from its beginning or from a turn, to its end or to a state that was met."""
        self.lives += 1
        life, state = self._taken_up(work)
        bases = [(0, work)]

        def on_turn() -> None:
            nonlocal state
            if life.number > work.last:
                state = self._note(life.key(), state)
                if work.left:
                    kept = replace(work, kept=life.kept(), command="", deviations={})
                    bases.append((len(life.points), kept))

        def on_written(name: str) -> None:
            """The process ends here: what it leaves is taken from this run, which goes on."""
            if life.number > work.last:
                left_behind: World = pickle.loads(life.world.kept())
                left_behind.happened.append(f"crash:{name}")
                words = f"{life.name} {life.command}, call {life.number - 1} {name}: crash"
                self.ends["crashed"] += 1
                path = (*work.path, words)
                self._next(left_behind, life.command, LifeEnd(word="crashed"), work.left - 1, path, None)

        life.on_turn = on_turn
        if work.left and "crash" in self.scenario.faults:
            life.on_written = on_written
        try:
            end = life.execute()
            self.ends[end.word] += 1
            self._next(life.world, life.command, end, work.left, work.path, state)
        finally:
            if work.left:
                self._deviate(life, bases)

    def _taken_up(self, work: Work) -> tuple[Life, int | None]:
        state = work.came_from
        if not work.command:
            life: Life = pickle.loads(work.kept)
        else:
            world: World = pickle.loads(work.kept)
            if not work.deviations:
                state = self._note(hash(("begins", work.command, world.key())), state)
                self.paths[state] = work.path
            world.lives += 1
            life = Life(world=world, name=f"run-{world.lives}", command=work.command, checker=Checker(world))
        life.deviations = work.deviations
        return life, state

    def _deviate(self, life: Life, bases: list[tuple[int, Work]]) -> None:
        """All that may go another way at the calls that were made."""
        bases = [*bases, (len(life.points), bases[0][1])]
        for (first, base), (end, _) in pairwise(bases):
            for point in life.points[first:end]:
                there = base.deviations.get(point.number, "")
                if point.number < base.last or (there and there not in EVENTS):
                    continue
                for what in self._at(point, base.left):
                    if what != there:
                        words = f"{life.name} {life.command}, call {point.number} {point.name}: {what}"
                        more = {**base.deviations, point.number: f"{there}+{what}"}
                        work = replace(
                            base, deviations=more, left=base.left - 1, path=(*base.path, words), came_from=None
                        )
                        self._add(work)

    def _next(
        self, world: World, command: str, end: LifeEnd, left: int, path: tuple[str, ...], state: int | None
    ) -> None:
        """What the operator does after a life."""
        if end.word in ("reclaimed", "kept"):
            for _ in range(4):
                world.tick()
            Checker(world).finished()
            return
        following = "run"
        if command == "reclaim" and end.word == "RefusedError" and "store_forgets" in world.happened:
            pass  # the retirement was lost
        elif end.word == "done" or command == "reclaim":
            following = "reclaim"
        elif end.word == "plan-refused" and (self.scenario.is_compacted or EXCUSES & set(world.happened)):
            return
        elif end.reason in ("aborted", "superseded"):
            pass  # by another process, or the store lost its beginning: it is planned anew
        elif end.word == "refused" or end.word == "RefusedError":
            following = self._after_refusal(world, command, end)
            if not following:
                return
        if end.word == "waiting" and (world.clusters["p"].admin.transactions or "stranger" in world.happened):
            state = None  # a transaction that stays open, or a group that reads nothing, is waited for without end
        world.holder = ""
        world.clock.advance(1.0)
        world.tick()
        for client in world.clients:
            client.follows = client.is_live
        require(
            world.lives < MOST_LIVES, "I9", f"no end after {world.lives} processes; the last: {end.word} {end.reason}"
        )
        self._add(Work(kept=world.kept(), command=following, left=left, path=path, came_from=state))

    def _look_for_circles(self) -> None:
        """I9: without a further deviation everything comes to an end."""
        ended: set[int] = set()
        for first in self.after:
            trail: dict[int, None] = {}
            state: int | None = first
            while state is not None and state not in ended and state not in trail:
                trail[state] = None
                state = self.after.get(state)
            if state in trail:
                path = next((self.paths[each] for each in trail if each in self.paths), ())
                self._fail(ViolationError("I9", "processes go round in a circle"), path)
            ended.update(trail)

    def _after_refusal(self, world: World, command: str, end: LifeEnd) -> str:
        """What an operator does where a refusal is right; an end of the path where only people can judge."""
        reasons = {
            "unknown-groups": "stranger", "lost-records": "trim", "source-differs": "recreate",
            "target-differs": "early_write", "target": "early_write", "fence": "begin_transaction",
        }  # fmt: skip
        happened = set(world.happened)
        if end.reason in ("target-differs",) and "early_write" in happened and command != "abort":
            return "abort"
        if any(event in happened for reason, event in reasons.items() if reason in end.reason):
            return ""
        if happened & {"recreate", "early_write", "trim", "stranger", "other:abort", "begin_transaction"}:
            return ""
        if command == "abort":
            return "run"
        is_excused = "abort" in end.reason and "other:abort" in happened
        require(is_excused, "I9", f"refused without a reason: {end.word} {end.reason}")
        return "abort"

    def _at(self, point: Point, left: int) -> list[str]:
        """The deviations that make a difference at a call; crashes come from `on_written`.

        A journal that cannot be written ends the process, as a crash does: that is tried where it is the first fault.
        """
        found = resources(self.scenario.events, point.concerns)
        faults = [each for each in self.scenario.faults if each != "crash"]
        if point.is_write and "journal" in point.concerns:
            found += [each for each in faults if left == self.depth and not each.startswith("other:")]
        elif point.is_write:
            found += faults
        elif point.name in FAILING_READS and "refused" in faults:
            found.append("refused")
        return found
