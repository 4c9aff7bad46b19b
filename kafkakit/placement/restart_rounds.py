"""Brokers in as few rounds as can be: no two in conflict in one round, and no more of a group than may go at once.

A heuristic gives rounds, three bounds say how few there must be, and in between CP-SAT searches exactly while the
program is small. The same problem has the same answer on every machine.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints

WORK = 2.0
"""CP-SAT's deterministic time for one number of rounds; about as many seconds, and the same on every machine."""
LARGEST = 1_500
"""Choices (broker x round) up to which rounds are searched exactly."""
LARGEST_CONDITIONS = 60_000
"""Conditions times rounds up to which they are."""
MOST_CLIQUES = 64


class RoundsProblem:
    """The brokers 0 to n - 1 are to be put into rounds of at most `at_once`.

    No two that are in conflict are in one round, nor more than `most` of the brokers in a row of a limit's array.
    """

    def __init__(self, conflicts: "Bools", limits: "Sequence[tuple[Ints, int]]", at_once: int) -> None:
        import numpy as np

        self.at_once, self._conflicts = at_once, conflicts
        self._weights = conflicts.astype(np.float32)
        lengths = np.concatenate([np.full(len(rows), rows.shape[1]) for rows, _ in limits] or [np.zeros(0, np.int64)])
        self._members = np.concatenate([rows.ravel() for rows, _ in limits] or [np.zeros(0, np.int64)])
        self._most = np.concatenate([np.full(len(rows), most) for rows, most in limits] or [np.zeros(0, np.int64)])
        self._limit_of = np.repeat(np.arange(len(lengths)), lengths)
        self._ends = np.cumsum(lengths)
        order = np.argsort(self._members, kind="stable")
        ends = np.searchsorted(self._members[order], np.arange(1, len(conflicts)))
        self._limits_of = np.split(self._limit_of[order], ends)

    def least(self) -> int:
        """A number of rounds that no plan goes below."""
        return sum(map(self._least, self._components(range(len(self._conflicts)))))

    def solve(self, members: Sequence[int]) -> tuple[list[list[int]], int]:
        """Rounds for these brokers, and a number that no plan for them goes below."""
        rounds: list[list[int]] = []
        bound = 0
        for component in self._components(members):
            found = self._largest_first(component)
            least = self._least(component)
            if least < len(found):
                found, least = self._search(component, found, least)
            rounds += found
            bound += least
        return rounds, bound

    def _components(self, members: Sequence[int]) -> list[list[int]]:
        """Parts of the brokers such that no broker of one may go down together with a broker of another."""
        import numpy as np

        waiting = np.zeros(len(self._conflicts), np.bool_)
        waiting[list(members)] = True
        parts = []
        while waiting.any():
            part = new = np.arange(len(waiting)) == int(waiting.argmax())
            while new.any():
                waiting &= ~part
                new = waiting & ~self._conflicts[new].all(axis=0)
                part = part | new
            parts.append(np.flatnonzero(part).tolist())
        return parts

    def _least(self, part: list[int]) -> int:
        """The largest of three bounds.

        A round with a broker has no more than all that may go down with it; those in conflict with each other need a
        round each; of those under a limit no more than so many are in each.
        """
        import numpy as np

        if len(part) == 1:
            return 1
        inside = self._conflicts[np.ix_(part, part)]
        largest = np.minimum(self.at_once, len(part) - inside.sum(axis=1))
        bounds = [int(np.ceil((1.0 / largest).sum() - 1e-9)), self._clique(inside)]
        if len(self._most):
            is_in = np.zeros(len(self._conflicts), np.bool_)
            is_in[part] = True
            counts = np.bincount(self._limit_of[is_in[self._members]], minlength=len(self._most))
            bounds.append(int((-(-counts // self._most)).max()))
        return max(bounds)

    @staticmethod
    def _clique(conflicts: "Bools") -> int:
        import numpy as np

        weights, best = conflicts.astype(np.float32), 1
        for start in conflicts.sum(axis=1).argsort(kind="stable")[::-1][:MOST_CLIQUES].tolist():
            open_, size = conflicts[start].copy(), 1
            while open_.any():
                inside = weights @ open_.astype(np.float32)
                inside[~open_] = -1
                open_ &= conflicts[int(inside.argmax())]
                size += 1
            best = max(best, size)
        return best

    def _largest_first(self, part: list[int]) -> list[list[int]]:
        """One round after another: first the broker with the most conflicts, then those whose conflicts are outside."""
        import numpy as np

        left = np.zeros(len(self._conflicts), np.bool_)
        left[part] = True
        rounds = []
        while left.any():
            open_, chosen = left.copy(), list[int]()
            counts = np.zeros(len(self._most), np.int64)
            while open_.any() and len(chosen) < self.at_once:
                outside = self._weights @ (left & ~open_).astype(np.float32)
                inside = self._weights @ open_.astype(np.float32)
                score = outside * len(left) - inside if chosen else inside
                score[~open_] = -np.inf
                new = int(score.argmax())
                chosen.append(new)
                open_[new] = left[new] = False
                open_ &= ~self._conflicts[new]
                rows = self._limits_of[new]
                counts[rows] += 1
                for limit in rows[counts[rows] == self._most[rows]].tolist():
                    open_[self._members[self._ends[limit - 1] if limit else 0 : self._ends[limit]]] = False
            rounds.append(chosen)
        return rounds

    def _search(self, part: list[int], found: list[list[int]], least: int) -> tuple[list[list[int]], int]:
        """Fewer rounds, one number after the other from the bound on, while the program is small enough."""
        import numpy as np

        conditions = int(self._conflicts[np.ix_(part, part)].sum()) // 2 + len(self._most)
        while least < len(found):
            if len(part) * least > LARGEST or conditions * least > LARGEST_CONDITIONS:
                break
            answer = self._fit(part, least)
            if answer is None:
                break
            if answer:
                return answer, least
            least += 1
        return found, least

    def _fit(self, part: list[int], number: int) -> list[list[int]] | None:
        """These brokers in so many rounds; empty where that is impossible, None where it is not known."""
        from ortools.sat.python import cp_model

        program: Any = cp_model.CpModel()
        rounds = range(number)
        is_in = {v: [program.new_bool_var(f"{v}-{r}") for r in rounds] for v in part}
        for v in part:
            program.add_exactly_one(is_in[v])
        for r in rounds:
            program.add(sum(is_in[v][r] for v in part) <= self.at_once)
            for v in part:
                for w in part:
                    if w < v and self._conflicts[v, w]:
                        program.add_at_most_one(is_in[v][r], is_in[w][r])
        members: dict[int, list[int]] = {}
        for limit, v in zip(self._limit_of.tolist(), self._members.tolist(), strict=True):
            if v in is_in:
                members.setdefault(limit, []).append(v)
        for limit, inside in members.items():
            if len(inside) > self._most[limit]:
                for r in rounds:
                    program.add(sum(is_in[v][r] for v in inside) <= int(self._most[limit]))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = WORK
        solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends this search alone, and the command goes on
        status = solver.solve(program)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            chosen = [[v for v in part if solver.value(is_in[v][r])] for r in rounds]
            return [each for each in chosen if each]
        return [] if status == cp_model.INFEASIBLE else None
