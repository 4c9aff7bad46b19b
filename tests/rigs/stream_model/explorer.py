"""All executions of a failover with at most so many deviations, each state once.

A deviation is a crash after a change, an answer that is lost, a call that fails, an event of the world, or another
process that takes over. One life of a process is run again from its beginning for each deviation more; what it leaves
is the world from which the next process continues with the same command.
"""

import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.rigs.stream_model.checker import Checker, Violation, require
from tests.rigs.stream_model.process import Life, LifeEnd, Point, Pruned
from tests.rigs.stream_model.world import Scenario, World, resources

MOST_LIVES = 20
FAILING_READS = frozenset({"spans", "committed", "groups", "get", "describe_acls", "registrations"})


@dataclass(kw_only=True)
class Exploration:
    """What was explored; `seen` has the deviations that were left at each state."""

    scenario: Scenario
    depth: int
    seen: dict[int, int] = field(default_factory=dict)
    lives: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    most_failures: int = 1
    deadline_s: float | None = None
    part: tuple[int, int] = (0, 1)
    is_cut: bool = False

    def explore(self) -> None:
        """Explore everything, or until there are enough failures."""
        self._from(World(scenario=self.scenario).kept(), "run", self.depth, LifeEnd(word=""), ())

    @property
    def words(self) -> str:
        """One line."""
        ends = ", ".join(f"{count} {word}" for word, count in sorted(self.ends.items()))
        return (
            f"{self.scenario.name}, {self.depth} deviations: {len(self.seen):,} states, {self.lives:,} lives of a process,"
            f" {ends}{', cut' if self.is_cut else ''}"
        )

    @property
    def _is_over(self) -> bool:
        if self.deadline_s is not None and time.monotonic() > self.deadline_s:
            self.is_cut = True
        return self.is_cut or len(self.failures) >= self.most_failures

    def _from(self, kept: bytes, command: str, left: int, last: LifeEnd, path: tuple[str, ...]) -> None:
        """From a world in which no process runs."""
        work: list[tuple[bytes, str, dict[int, str], int, tuple[str, ...]]] = [(kept, command, {}, left, path)]
        while work and not self._is_over:
            kept, command, deviations, left, path = work.pop()
            try:
                work += self._life(kept, command, deviations, left, path)
            except Violation as violation:
                self.failures.append(f"{violation} after {list(path)}")
                self.broken.add(violation.name)

    def _life(
        self, kept: bytes, command: str, deviations: dict[int, str], left: int, path: tuple[str, ...]
    ) -> Iterator[tuple[bytes, str, dict[int, str], int, tuple[str, ...]]]:
        world: World = pickle.loads(kept)
        world.lives += 1
        self.lives += 1
        last = max(deviations, default=-1)
        life = Life(world=world, name=f"run-{world.lives}", deviations=deviations, checker=Checker(world))

        def on_loop(*key: object) -> None:
            if life.number > last:
                self._note(hash((command, *key)), left)

        crashed: list[tuple[bytes, str, dict[int, str], int, tuple[str, ...]]] = []

        def on_written(name: str) -> None:
            """The process ends here: what it leaves is taken from this run, which goes on."""
            key = hash(("crash", command, world.key(), world.holder))
            if life.number <= last + 1 or self.seen.get(key, -1) >= left - 1:
                return
            self.seen[key] = left - 1
            left_behind: World = pickle.loads(world.kept())
            left_behind.happened.append(f"crash:{name}")
            words = f"life {world.lives}, call {life.number - 1} {name}: crash"
            self.ends["killed"] = self.ends.get("killed", 0) + 1
            crashed.extend(self._next(left_behind, command, left - 1, LifeEnd(word="killed"), (*path, words)))

        life.on_loop = on_loop
        if left and "crash" in self.scenario.faults:
            life.on_written = on_written
        try:
            end = life.execute(command)
        except Pruned:
            end = None
        found = crashed
        if left:
            for point in life.points:
                if point.number > last:
                    for what in self._at(point, left):
                        more = {**deviations, point.number: what}
                        words = f"life {world.lives}, call {point.number} {point.name}: {what}"
                        found.append((kept, command, more, left - 1, (*path, words)))
        if self.part[1] > 1 and left == self.depth and not deviations and world.lives == 1:
            found = found[self.part[0] :: self.part[1]]
        if end is not None:
            self.ends[end.word] = self.ends.get(end.word, 0) + 1
            found += self._next(world, command, left, end, path)
        return iter(found)

    def _next(
        self, world: World, command: str, left: int, end: LifeEnd, path: tuple[str, ...]
    ) -> list[tuple[bytes, str, dict[int, str], int, tuple[str, ...]]]:
        """What the operator does after a life."""
        if end.word in ("reclaimed", "kept"):
            for _ in range(4):
                world.tick(1.0)
            Checker(world).finished()
            return []
        following = "run"
        if end.word == "done" or command == "reclaim":
            following = "reclaim"
        elif end.word == "plan-refused" and {"recreate", "early_write", "begin_transaction"} & set(world.happened):
            return []
        elif end.word == "refused" or end.word == "RefusedError":
            following = self._after_refusal(world, command, end, path)
            if not following:
                return []
        world.holder = ""
        world.clock.advance(1.0)
        world.tick(1.0)
        for client in world.clients:
            client.follows = client.is_live
        require(world.lives < MOST_LIVES, "I9", f"no end after {world.lives} processes; the last: {end.word} {end.reason}")
        try:
            self._note(hash(("between", following, world.key())), left)
        except Pruned:
            return []
        return [(world.kept(), following, {}, left, path)]

    def _after_refusal(self, world: World, command: str, end: LifeEnd, path: tuple[str, ...]) -> str:
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

    def _note(self, key: int, left: int) -> None:
        if self.seen.get(key, -1) >= left:
            raise Pruned
        self.seen[key] = left

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
