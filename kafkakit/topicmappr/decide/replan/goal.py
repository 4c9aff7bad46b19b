"""What the plan wanted, read back from its own file: a band, a range of free bytes, even counts, or places alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from kafkakit.core.broker_list import BrokerList, parse_broker_list
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.plan import BrokerLoad, Plan
from kafkakit.core.quantities import format_bytes, parse_percent, parse_size
from kafkakit.placement.by_size.lp_relaxation import PPM, shares
from kafkakit.topicmappr.decide.rebalance.request import Goal, RebalanceRequest

_NOT_REPLANNED = ("topicmappr leaders", "topicmappr rebalance-dirs", "reassign apply")


class Kind(StrEnum):
    """What limits the goal sets: shares of used bytes, a range of free bytes, a range of counts, or none."""

    BAND = "band"
    FREE_RANGE = "free-range"
    COUNTS = "counts"
    PLACES = "places"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGoal:
    """The goal: `max_deviation` in millionths of a share, bytes, or replicas; 0 for `places`.

    `leaving` brokers end empty, however far the plan is; with `targets_only` every broker that is no target does.
    `replication` is the factor that was asked for (0: as it is). `max_use` and `head_room` limit disks.
    Racks and states of brokers are `seen` or not looked at; `strict` says that every set must keep the rack rule.
    `limits` is a request with the plan's limits on counts and leaders (None: it has none).
    """

    kind: Kind
    max_deviation: int
    leaving: frozenset[int] = frozenset()
    targets_only: bool = False
    replication: int = 0
    min_rack_ids: int = 0
    max_use: Fraction = Fraction(9, 10)
    head_room: int = 0
    seen: bool = True
    strict: bool = False
    limits: RebalanceRequest | None = None

    @property
    def by_bytes(self) -> bool:
        """True when sizes are needed."""
        return self.kind in (Kind.BAND, Kind.FREE_RANGE)

    def shown(self, max_deviation: int) -> str:
        """A deviation in words."""
        if self.kind is Kind.BAND:
            return f"a band of {max_deviation / PPM * 100:.4g}%"
        if self.kind is Kind.FREE_RANGE:
            return f"a range of free bytes of {format_bytes(max_deviation)}"
        return f"a range of {max_deviation} in replica counts"

    @property
    def words(self) -> str:
        """The goal in words."""
        if self.kind is Kind.PLACES:
            return "every replica on a broker that may hold it"
        return self.shown(self.max_deviation)


def goal_of(plan: Plan, slack: Fraction) -> PlanGoal:
    """Read the goal from the plan's flags and from what it reached, whichever is looser, widened by `slack`.

    Raises `UsageError` for plans that copy nothing between brokers, and `InputError` for flags that make no sense.
    """
    words = plan.request
    command = words.get("command", "")
    if command in _NOT_REPLANNED:
        raise UsageError(f"a plan of {command} is not replanned: making it again costs as little", hint="plan it again")
    try:
        kind, max_deviation = _shape(plan)
        return PlanGoal(
            kind=kind,
            max_deviation=int(max_deviation * (1 + slack)),
            leaving=frozenset(parse_broker_list(words["brokers"]).ids)
            if command == "topicmappr drain"
            else frozenset(),
            targets_only=command == "topicmappr rebuild",
            replication=_number(words.get("replication", "0")),
            min_rack_ids=plan.rules.min_rack_ids if plan.rules else _number(words.get("min-rack-ids", "0")),
            max_use=parse_percent(words.get("max-disk-use", "90%"), "max-disk-use"),
            head_room=parse_size(words.get("head-room", "0"), "head-room"),
            seen=words.get("use-meta") != "false",
            strict=words.get("force-rebuild") == "true",
            limits=_limits(words),
        )
    except (UsageError, KeyError) as error:
        raise InputError("plan", f"its request is invalid: {error}", hint="make a new plan") from None


_LIMITS = ("count-band", "max-replicas", "max-leaders", "max-topic-leaders")


def _limits(words: Mapping[str, str]) -> RebalanceRequest | None:
    if not any(name in words for name in _LIMITS):
        return None
    band, *most = (words.get(name) for name in _LIMITS)
    replicas, leaders, of_topic = (None if text is None else _number(text) for text in most)
    return RebalanceRequest(
        brokers=BrokerList(ids=()),
        topics=(".*",),
        goal=Goal(count_band=None if band is None else parse_percent(band, "count-band")),
        max_replicas=replicas,
        max_leaders=leaders,
        max_topic_leaders=of_topic,
        words={},
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"{text[:40]!r} is not a number")
    return int(text)


def _shape(plan: Plan) -> tuple[Kind, int]:
    words, proof = plan.request, plan.certificate.proof
    targets = {b.id for b in plan.brokers}
    loads = [load for load in plan.after.brokers if load.broker in targets]
    if proof is not None and proof.load == "bytes" and proof.limits:
        if "band" in words:
            requested = int(parse_percent(words["band"], "band", most=1000) * PPM)
            return Kind.BAND, max(requested, _band(loads))
        free = [load.free_bytes for load in loads if load.free_bytes is not None]
        reached = max(free, default=0) - min(free, default=0)
        return Kind.FREE_RANGE, max(
            parse_size(words["free-range"], "free-range") if "free-range" in words else 0, reached
        )
    counted = proof is not None and proof.load == "replicas" and bool(proof.limits)
    if words.get("force-rebuild") == "true" or counted:
        return Kind.COUNTS, plan.after.replicas_max - plan.after.replicas_min
    return Kind.PLACES, 0


def _band(loads: list[BrokerLoad]) -> int:
    """How far the plan leaves a broker from its share, in millionths rounded up; 0 where that is not known."""
    used = [load.used_bytes for load in loads if load.used_bytes is not None]
    sizes = [load.capacity_bytes or 0 for load in loads]
    if len(used) != len(loads) or not used:
        return 0
    if not all(sizes):
        sizes = [1] * len(used)
    share = shares(sum(used), sizes, [True] * len(used)).tolist()
    away = [-(-abs(u - s) * PPM // s) for u, s in zip(used, share, strict=True) if s]
    return max(away, default=0)
