"""The options of commands that judge and work out, and plan nothing: `check`, `audit` and `frontier`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import BROKER_CHOICE, TOPIC_CHOICE
from kafkakit.cli.option_groups import RECORDED, option, option_words, recorded_as, recorded_words
from kafkakit.core.broker_list import parse_broker_list
from kafkakit.core.findings import FailOn
from kafkakit.core.quantities import parse_percent, parse_size
from kafkakit.core.shell_words import quote
from kafkakit.core.topic_selection import parse_patterns
from kafkakit.topicmappr.commands import options as shared
from kafkakit.topicmappr.decide.frontier.request import Metric

if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.audit.request import AuditRequest
    from kafkakit.topicmappr.decide.check.catalogue import CheckRequest
    from kafkakit.topicmappr.decide.constraints import TagConstraints
    from kafkakit.topicmappr.decide.frontier.request import FrontierRequest

FailFrom = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 for findings of this severity or worse.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The rules that a cluster is held against."""

    topics: str = option(
        "",
        **TOPIC_CHOICE,
        help="Topics to check; all when not given.",
    )
    topics_exclude: shared.TopicsExclude = ""
    brokers: str = option(
        "", **BROKER_CHOICE, help="Brokers that should hold the replicas; all live ones when not given."
    )
    min_rack_ids: shared.MinRackIds = 0
    replication: int = option(0, help="Replicas that every partition must have; 0: not checked.")
    band: str = option(
        "10%", metavar="PERCENT", help="How far a broker or log dir may be from its share of used space."
    )
    leader_band: str = option(
        "10%", metavar="PERCENT", help="How far a broker may be from an even share of preferred leaders."
    )
    max_disk_use: str = option("85%", metavar="PERCENT", help="How full a disk may be.")
    fail_on: FailFrom = FailOn.WARNING

    def request(self, program: str, snapshot: Path | None, tags: shared.ConstraintOptions) -> "CheckRequest":
        """Read the options; `program` and `snapshot` go into the commands that hints name."""
        from kafkakit.topicmappr.decide.check.catalogue import CheckRequest

        return CheckRequest(
            topics=parse_patterns(self.topics),
            topics_exclude=parse_patterns(self.topics_exclude),
            brokers=shared.brokers_given(self.brokers),
            replication=self.replication,
            min_rack_ids=self.min_rack_ids,
            band=parse_percent(self.band, "--band"),
            leader_band=parse_percent(self.leader_band, "--leader-band"),
            max_disk_use=parse_percent(self.max_disk_use, "--max-disk-use"),
            topic_words=self.topics or ".*",
            constraints=tags.constraints,
            constraint_words=" ".join(option_words(tags)),
            program=program,
            context=f" --snapshot {quote(str(snapshot))}" if snapshot else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What a map is judged by."""

    brokers: str = option("", **BROKER_CHOICE, help="Brokers to balance; those that hold the topics if not given.")
    topics: str = option(
        "", **TOPIC_CHOICE, help="Topics that another plan might move instead; the topics of the map if not given."
    )
    min_rack_ids: shared.MinRackIds = 0
    spread: shared.Spread = False
    max_disk_use: shared.MaxDiskUse = "90%"
    band: str = option("", metavar="PERCENT", help="The band of used space to compare with.")
    free_range: str = option("", metavar="SIZE", help="The range of free bytes to compare with.")
    fail_on: FailFrom = FailOn.ERROR

    def request(self, constraints: "TagConstraints") -> "AuditRequest":
        """Read the options."""
        from kafkakit.topicmappr.decide.audit.request import AuditRequest

        return AuditRequest(
            brokers=shared.brokers_given(self.brokers),
            topics=parse_patterns(self.topics),
            min_rack_ids=self.min_rack_ids,
            spread=self.spread,
            constraints=constraints,
            max_disk_use=parse_percent(self.max_disk_use, "--max-disk-use"),
            band=parse_percent(self.band, "--band", most=1000) if self.band else None,
            free_range_bytes=parse_size(self.free_range, "--free-range") if self.free_range else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierScope:
    """What may move; recorded for the rebalance that the frontier names."""

    brokers: shared.Brokers = field(default="-1", metadata=RECORDED)
    topics: str = option(".*", **TOPIC_CHOICE, help="Topics that may move.", recorded=True)
    topics_exclude: shared.TopicsExclude = field(default="", metadata=RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierGoals:
    """What is worked out."""

    metric: Metric | None = option(None, help="What is tightened: the band of used space, or the range of free bytes.")
    bands: str = option("", metavar="5%,3%,...", help="Bands to compute; eight from 20% to 1% if not given.")
    free_ranges: str = option(
        "", metavar="SIZE,...", help="Ranges to compute; eight fractions of the present range if not given."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRules:
    """The rules that every plan of the frontier keeps."""

    min_rack_ids: shared.MinRackIds = field(default=0, metadata=RECORDED)
    pin: shared.Pin = field(default=None, metadata=recorded_as(shared.pin_word))
    max_disk_use: shared.MaxDiskUse = field(default="90%", metadata=RECORDED)
    head_room: shared.HeadRoom = field(default="0", metadata=recorded_as(shared.head_room_word))
    locality_scoped: shared.LocalityScoped = field(default=False, metadata=RECORDED)
    spread: shared.Spread = field(default=False, metadata=RECORDED)
    limits: shared.BrokerLimits


def frontier_request(
    scope: FrontierScope, goals: FrontierGoals, rules: FrontierRules, tags: shared.ConstraintOptions
) -> "FrontierRequest":
    """Read the options; `UsageError` for those that cannot be read or contradict each other."""
    from kafkakit.topicmappr.decide.frontier.request import (
        FrontierRequest,
        goal_of,
        metric_of,
        parse_bands,
        parse_ranges,
    )
    from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest

    pinned, chosen = shared.patterns_of(rules.pin), metric_of(goals.metric, goals.bands, goals.free_ranges)
    base = RebalanceRequest(
        brokers=parse_broker_list(scope.brokers),
        topics=parse_patterns(scope.topics),
        topics_exclude=parse_patterns(scope.topics_exclude),
        goal=goal_of(chosen),
        locality_scoped=rules.locality_scoped,
        min_rack_ids=rules.min_rack_ids,
        spread=rules.spread,
        max_disk_use=parse_percent(rules.max_disk_use, "--max-disk-use"),
        head_room_bytes=parse_size(rules.head_room, "--head-room"),
        pinned=pinned,
        constraints=tags.constraints,
        words={},
    )
    bands, ranges = parse_bands(goals.bands), parse_ranges(goals.free_ranges)
    return FrontierRequest(base=rules.limits.on(base), metric=chosen, bands=bands, free_ranges=ranges)


def rebalance_words(
    scope: FrontierScope, snapshot: Path | None, rules: FrontierRules, tags: shared.ConstraintOptions
) -> dict[str, str]:
    """The rebalance with the same selection and rules, as recorded words."""
    file = {"snapshot": str(snapshot)} if snapshot else {}
    return recorded_words("topicmappr rebalance", scope) | file | recorded_words("topicmappr rebalance", rules, tags)
