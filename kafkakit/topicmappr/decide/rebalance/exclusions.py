"""Brokers that a balance gives no copies to, or takes none from, and what is left of the goal for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.placement.by_size.lp_relaxation import shares
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest

RECEIVERS, GIVERS = "--exclude-receivers", "--exclude-givers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """Ids of brokers that take no copies (`receivers`), and of those that lose none (`givers`)."""

    receivers: frozenset[int] = frozenset()
    givers: frozenset[int] = frozenset()

    @property
    def words(self) -> tuple[str, ...]:
        """The options that are in force, with their brokers."""
        given = ((RECEIVERS, self.receivers), (GIVERS, self.givers))
        return tuple(f"{flag} {','.join(map(str, sorted(ids)))}" for flag, ids in given if ids)

    def giving(self, sources: Sequence[int] | None, holding: Iterable[int]) -> tuple[int, ...] | None:
        """The brokers that may lose copies, sorted; None: all. `sources` are those that a threshold chose."""
        if not self.givers:
            return None if sources is None else tuple(sorted(sources))
        return tuple(sorted(frozenset(holding if sources is None else sources) - self.givers))

    def left_out(self, load: Mapping[int, int], capacity: Mapping[int, int], targets: Sequence[int]) -> frozenset[int]:
        """The targets whose load cannot come closer to their share, as far as this is known before any plan.

        Those that neither take nor give, those below their share that take nothing, and those above it that give
        nothing. The share is that of the others: the goal is theirs alone. Raises `UsageError` where no broker is left.
        """
        out = self.receivers & self.givers & frozenset(targets)
        if not self.words:
            return out
        while left := [b for b in targets if b not in out]:
            known = all(capacity[b] > 0 for b in left)
            parts = shares(sum(load[b] for b in left), [capacity[b] if known else 1 for b in left], [True] * len(left))
            share = dict(zip(left, parts.tolist(), strict=True))
            more = {
                b
                for b in left
                if (b in self.receivers and load[b] < share[b]) or (b in self.givers and load[b] > share[b])
            }
            if not more:
                return out
            out |= more
        raise UsageError(f"no broker is left to balance with {' and '.join(self.words)}", hint="exclude fewer brokers")


def exclusions_of(snapshot: ClusterSnapshot, request: RebalanceRequest, holding: frozenset[int]) -> Exclusions:
    """Read both lists on the cluster; raises `UsageError` for brokers that it does not know."""
    return Exclusions(
        receivers=named_brokers(snapshot, RECEIVERS, request.exclude_receivers, holding),
        givers=named_brokers(snapshot, GIVERS, request.exclude_givers, holding),
    )


def named_brokers(
    snapshot: ClusterSnapshot, flag: str, listed: BrokerList | None, holding: frozenset[int] = frozenset()
) -> frozenset[int]:
    """The brokers that an option lists (None: none); raises `UsageError` for those that the cluster does not know."""
    live, known = frozenset(b.id for b in snapshot.brokers if b.is_alive), {b.id for b in snapshot.brokers}
    ids = frozenset(listed.resolve(holding, live)) if listed else frozenset()
    if wrong := sorted(ids - known - holding):
        raise UsageError(f"{flag}: {some(wrong)} not in this cluster", hint=f"the brokers are {some(sorted(known))}")
    return ids
