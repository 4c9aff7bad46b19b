"""The flows of moves as a directed graph: who sends, who receives, what each must and what each may pass."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from kafkakit.autothrottle.decide.law import BrokerSide, Side
from kafkakit.autothrottle.decide.observed import Flow, Load, Observed

INFINITE = float("inf")


def sides_of(flows: Iterable[Flow]) -> dict[BrokerSide, float]:
    """What producers write to the partitions that pass each side, bytes/s: at less, copies never catch up."""
    ingest: dict[BrokerSide, float] = defaultdict(float)
    for flow in flows:
        ingest[flow.source, Side.OUT] += flow.ingest_per_s
        ingest[flow.destination, Side.INTO] += flow.ingest_per_s
    return dict(sorted(ingest.items()))


def load_of(observed: Observed, side: BrokerSide) -> Load:
    """The traffic of one side, all unknown for a broker that was not seen."""
    seen = observed.brokers.get(side[0])
    return Load() if seen is None else seen.into if side[1] is Side.INTO else seen.out


def peers_of(flows: Iterable[Flow]) -> dict[BrokerSide, tuple[BrokerSide, ...]]:
    """The sides at the other end of each side's flows."""
    peers: dict[BrokerSide, set[BrokerSide]] = defaultdict(set)
    for flow in flows:
        ends = (flow.source, Side.OUT), (flow.destination, Side.INTO)
        peers[ends[0]].add(ends[1])
        peers[ends[1]].add(ends[0])
    return {side: tuple(sorted(others)) for side, others in peers.items()}


def within_peers(
    limits: Mapping[BrokerSide, float], peers: Mapping[BrokerSide, tuple[BrokerSide, ...]]
) -> dict[BrokerSide, float]:
    """Each limit lowered to what all its peers together may pass, until no more changes.

    A peer without a limit passes anything. The sums only fall; O(flows) for each of at most as many rounds as a path
    has brokers, a handful in practice.
    """
    allowed = dict(limits)
    waiting = list(allowed)
    for _ in range(len(allowed)):
        changed: set[BrokerSide] = set()
        for side in waiting:
            others = peers.get(side, ())
            total = sum(allowed.get(other, INFINITE) for other in others) if others else INFINITE
            if total < allowed[side]:
                allowed[side] = total
                changed.update(other for other in others if other in allowed)
        if not changed:
            break
        waiting = sorted(changed)
    return allowed
