"""Which tags are of what does not exist any more, and what becomes of them.

As in kafka-kit, the tags of an object that is gone get the tag `tagMarkedForDeletionTime` with the time in Unix
seconds, lose it when the object is there again, and go once it is older than the allowed staleness. Here the record
goes with them, so that it is not marked again and again. Both programs may run on the same znodes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.quantities import format_percent
from kafkakit.registry.decide.tags import MARK, Kind, Tags

FEW = 3
"""So many objects may be gone at once whatever their share is."""
FUTURE_S = 3600.0
"""A mark further ahead of our clock is taken for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRules:
    """When marked tags go, and which share of a kind's tagged objects may be gone at most; `force`: any."""

    staleness_s: float = 3600.0
    max_share: Fraction = Fraction(1, 4)
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What to do with the records of one kind, by name; `refused` says why nothing is done."""

    kind: Kind
    tagged: int
    marks: tuple[str, ...] = ()
    unmarks: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    refused: str = ""


def plan_cleanup(
    kind: Kind, table: Mapping[str, Tags], existing: Collection[str], now_s: float, rules: CleanupRules
) -> CleanupPlan:
    """What to do with the tags in `table`; `existing` is all that the cluster has of the kind. O(objects).

    Names of brokers that are no ids are left alone, as in kafka-kit.
    """
    names = sorted(name for name in table if kind is Kind.TOPIC or (name.isascii() and name.isdigit()))
    gone = [name for name in names if name not in existing]
    unmarks = tuple(name for name in names if name in existing and MARK in table[name])
    if names and not existing and not rules.force:
        return CleanupPlan(kind=kind, tagged=len(names), refused=f"the cluster lists no {kind}s at all")
    most = max(FEW, int(rules.max_share * len(names)))
    if len(gone) > most and not rules.force:
        share = format_percent(Fraction(len(gone), len(names)))
        reason = f"{len(gone)} of {len(names)} tagged {kind}s are gone ({share}), more than {most}"
        return CleanupPlan(kind=kind, tagged=len(names), unmarks=unmarks, refused=reason)
    drops = tuple(name for name in gone if is_due(table[name], now_s, rules.staleness_s))
    marks = tuple(name for name in gone if name not in drops and needs_mark(table[name], now_s))
    waiting = tuple(name for name in gone if name not in {*drops, *marks})
    return CleanupPlan(kind=kind, tagged=len(names), marks=marks, unmarks=unmarks, drops=drops, waiting=waiting)


def is_due(tags: Tags, now_s: float, staleness_s: float) -> bool:
    """Whether the record of an object that is gone goes now: marked for long enough, or empty."""
    marked_s = _marked_s(tags, now_s)
    return not tags or (marked_s is not None and now_s - marked_s > staleness_s)


def needs_mark(tags: Tags, now_s: float) -> bool:
    """Whether there is no mark yet, or one that is no time of the past."""
    return _marked_s(tags, now_s) is None


def with_mark(tags: Tags, now_s: float) -> dict[str, str]:
    """The tags with a mark of now."""
    return {**tags, MARK: str(int(now_s))}


def _marked_s(tags: Tags, now_s: float) -> float | None:
    text = tags.get(MARK, "")
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) > now_s + FUTURE_S:
        return None
    return float(text)
