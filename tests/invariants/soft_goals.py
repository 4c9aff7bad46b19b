"""How even a plan of `topicmappr rebalance` is, added up from its replica lists, and the plan as first found."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from kafkakit.topicmappr.decide.rebalance import Rebalance
from kafkakit.topicmappr.decide.rebalance_soft_goals import FreeChoices


@contextmanager
def choices_left_open() -> Iterator[None]:
    """Within, plans stay as they are found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FreeChoices, "made", FreeChoices.left_open)
        yield


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """Bytes and copies moved by partition, and the goals beyond them, the first first, as sums of squares."""

    moved: dict[tuple[str, int], tuple[int, int]]
    counts: int
    leaders: int
    topics: int

    @property
    def soft(self) -> tuple[int, int, int]:
        """The order in which they count."""
        return self.counts, self.leaders, self.topics


def weigh(decided: Rebalance) -> Weighed:
    """Add everything up from the lists alone."""
    rules = decided.plan.rules
    assert rules is not None
    assert rules.receivers is not None
    keys = [p.key for p in decided.scope.partitions]
    held = Counter(b for row in decided.after for b in row)
    led = Counter(row[0] for row in decided.after if row)
    topics = Counter((key.topic, b) for key, row in zip(keys, decided.after, strict=True) for b in row)
    moved = {}
    for p, old, new in zip(decided.scope.partitions, decided.before, decided.after, strict=True):
        copies = len(set(new) - set(old))
        if copies:
            moved[p.key.topic, p.key.partition] = (copies, copies * (p.size_bytes or 0))
    return Weighed(
        moved=moved,
        counts=sum(held[b] ** 2 for b in rules.receivers),
        leaders=sum(led[b] ** 2 for b in decided.change.targets),
        topics=sum(n * n for n in topics.values()),
    )


def same_price(found: Rebalance, made: Rebalance) -> None:
    """The same bytes and copies of the same partitions, with the same proof, and no wider."""
    assert weigh(made).moved == weigh(found).moved
    assert made.reached <= found.reached, f"reached {made.reached}, was {found.reached}"
    assert made.max_deviation == found.max_deviation
    assert made.plan.certificate == found.plan.certificate


def no_worse(found: Rebalance, made: Rebalance) -> None:
    """The same price, and no less even in the first goal that differs; a note says so where something is won."""
    same_price(found, made)
    before, after = weigh(found).soft, weigh(made).soft
    assert after <= before
    assert any("spread more evenly" in note for note in made.plan.notes) == (after < before)
