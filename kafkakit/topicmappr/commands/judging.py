"""`kafkakit topicmappr check`, `audit` and `frontier`: judge a cluster or a map, work out what balance costs.

They plan nothing; their options are here as well.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import BROKER_CHOICE, TOPIC_CHOICE
from kafkakit.cli.option_groups import IS_RECORDED, given_options, recorded_as, recorded_words, with_option_groups
from kafkakit.cli.search_watch import showing_phases
from kafkakit.cli.session import finish
from kafkakit.core.columns import without_collector
from kafkakit.core.findings import FailOn
from kafkakit.core.options import option
from kafkakit.core.quantities import parse_percent, parse_size
from kafkakit.core.selection import parse_broker_list, parse_patterns
from kafkakit.topicmappr.commands import options as shared
from kafkakit.topicmappr.commands.options import ConstraintOptions, KafkaKitClusterOptions, observed_storage
from kafkakit.topicmappr.decide.requests import Metric
from kafkakit.wiring import read_input, write_file

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.core.findings import Finding
    from kafkakit.topicmappr.decide.check_rules import CheckRequest
    from kafkakit.topicmappr.decide.requests import AuditRequest, FrontierRequest


MapArgument = Annotated[str, typer.Argument(metavar="MAP", help="Reassignment map as Kafka's JSON; - for stdin.")]
PageFile = Annotated[
    Path | None, typer.Option("--report", help="Write table and plot as one self-contained HTML page to this file.")
]
MAP_LIMIT_BYTES = 512 << 20

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
        from kafkakit.topicmappr.decide.check_rules import CheckRequest

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
            topics_exclude_words=self.topics_exclude,
            constraint_options=given_options(tags),
            program=program,
            snapshot=str(snapshot) if snapshot else "",
        )


@with_option_groups
@without_collector()
def check(ctx: typer.Context, rules: CheckOptions, tags: ConstraintOptions, cluster: KafkaKitClusterOptions) -> int:
    """Check the placement rules: racks, in-sync replicas, shares of space and leaders, disks.

    Every finding names the command that repairs it. Partitions of a topic that break one rule are one finding, with
    three names in text and up to 10,000 a rule in JSON. Reads only. Exits 0 without findings of --fail-on or worse,
    1 with some, 75 when the cluster cannot be reached or sizes are too old.

    Examples:

    \b
    kafkakit --profile prod topicmappr check
    kafkakit topicmappr check --snapshot prod.json --topics 'orders.*' --band 5% --fail-on error
    """
    from kafkakit.topicmappr.decide.check import check_cluster
    from kafkakit.topicmappr.report.judgement import check_report

    cli = cli_context(ctx)
    request = rules.request(cli.program, cluster.snapshot, tags)
    # An unsound list is a finding here.
    seen, request = observed_storage(ctx, cluster, request, tags, sound_lists=False)
    found = check_cluster(seen.snapshot, request, seen.facts)
    return finish(cli, check_report(replace(found, findings=_with_sources(cli, found.findings)), rules.fail_on))


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

    def request(self, tags: ConstraintOptions, program: str, map_file: str) -> "AuditRequest":
        """Read the options; `program` and `map_file` go into the commands that hints name."""
        from kafkakit.topicmappr.decide.requests import MOST_BAND, AuditRequest

        return AuditRequest(
            brokers=shared.brokers_given(self.brokers),
            topics=parse_patterns(self.topics),
            min_rack_ids=self.min_rack_ids,
            spread=self.spread,
            constraints=tags.constraints,
            constraint_options=given_options(tags),
            program=program,
            map_file="" if map_file == "-" else map_file,
            max_disk_use=parse_percent(self.max_disk_use, "--max-disk-use"),
            band=parse_percent(self.band, "--band", most=MOST_BAND) if self.band else None,
            free_range_bytes=parse_size(self.free_range, "--free-range") if self.free_range else None,
        )


@with_option_groups
@without_collector()
def audit(
    ctx: typer.Context,
    map_file: MapArgument,
    judged: AuditOptions,
    tags: ConstraintOptions,
    cluster: KafkaKitClusterOptions,
) -> int:
    """Evaluate a reassignment map of any tool, without running it.

    Reports what it copies, how even the brokers are afterwards, the lower bound and the cost of a kafkakit plan for
    the same balance, and which entries break a rule or are at risk. Without --band or --free-range the balance is
    the range of free bytes that the map reaches. Without sizes only counts are compared. Reads only. Exits 1 for
    findings of --fail-on or worse, 2 when the file is not a reassignment map.

    Examples:

    \b
    kafkakit --profile prod topicmappr audit map.json
    kafkakit topicmappr audit - --snapshot prod.json --fail-on warning < map.json
    """
    from kafkakit.topicmappr.decide.audit import audit_map
    from kafkakit.topicmappr.decide.audit_map import read_map
    from kafkakit.topicmappr.report.judgement import audit_report

    cli = cli_context(ctx)
    request = judged.request(tags, cli.program, map_file)
    source = "stdin" if map_file == "-" else map_file
    reading = read_map(read_input(map_file, MAP_LIMIT_BYTES), source)
    seen, request = observed_storage(ctx, cluster, request, tags, sound_lists=False)
    with showing_phases(cli.output, "judging the map") as watch:
        found = audit_map(seen.snapshot, reading, request, seen.facts, watch)
    found = replace(found, findings=_with_sources(cli, found.findings))
    return finish(cli, audit_report(found, source, judged.fail_on))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierScope:
    """What may move; recorded for the rebalance that the frontier names."""

    brokers: shared.Brokers = field(default="-1", metadata=IS_RECORDED)
    topics: str = option(".*", **TOPIC_CHOICE, help="Topics that may move.", recorded=True)
    topics_exclude: shared.TopicsExclude = field(default="", metadata=IS_RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierGoals:
    """What is worked out."""

    metric: Metric | None = option(None, help="What to tighten: the band of used space, or the range of free bytes.")
    bands: str = option("", metavar="5%,3%,...", help="Bands to compute; eight from 20% to 1% if not given.")
    free_ranges: str = option(
        "", metavar="SIZE,...", help="Ranges to compute; eight fractions of the present range if not given."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRules:
    """The rules that every plan of the frontier keeps."""

    min_rack_ids: shared.MinRackIds = field(default=0, metadata=IS_RECORDED)
    pin: shared.Pin = field(default=None, metadata=recorded_as(shared.pin_word))
    max_disk_use: shared.MaxDiskUse = field(default="90%", metadata=IS_RECORDED)
    head_room: shared.HeadRoom = field(default="0", metadata=recorded_as(shared.head_room_word))
    locality_scoped: shared.LocalityScoped = field(default=False, metadata=IS_RECORDED)
    spread: shared.Spread = field(default=False, metadata=IS_RECORDED)
    limits: shared.BrokerLimits


@with_option_groups
@without_collector()
def frontier(
    ctx: typer.Context,
    scope: FrontierScope,
    goals: FrontierGoals,
    rules: FrontierRules,
    tags: ConstraintOptions,
    cluster: KafkaKitClusterOptions,
    report: PageFile = None,
) -> int:
    """Compute what each band of used space would cost: the bytes of a plan, and a proven lower bound.

    Writes no plan. Goals that cannot be reached are marked, with the reason; they are not a failure.

    Examples:

    \b
    kafkakit --profile prod topicmappr frontier
    kafkakit topicmappr frontier --snapshot prod.json --bands 10%,5%,2% --report frontier.html
    """
    from kafkakit.topicmappr.act.places import PlanDestination
    from kafkakit.topicmappr.decide.frontier import decide_frontier
    from kafkakit.topicmappr.report.judgement import frontier_page, frontier_report, rebalance_command

    cli, request = cli_context(ctx), frontier_request(scope, goals, rules, tags)
    PlanDestination(report=report).check()
    seen, request = observed_storage(ctx, cluster, request, tags)
    with showing_phases(cli.output, "computing a plan for each goal") as watch:
        found = decide_frontier(seen.snapshot, request, seen.facts, watch)
    following = rebalance_command(found, rebalance_options(scope, rules, tags), cli.program)
    following = cli.called(following) if following else None
    if report is not None:
        write_file(report, frontier_page(found, following))
    return finish(cli, frontier_report(found, following, plain=cli.output.plain_stdout))


def frontier_request(
    scope: FrontierScope, goals: FrontierGoals, rules: FrontierRules, tags: shared.ConstraintOptions
) -> "FrontierRequest":
    """Read the options; `UsageError` for those that cannot be read or contradict each other."""
    from kafkakit.topicmappr.decide.requests import (
        FrontierRequest,
        RebalanceRequest,
        goal_of,
        metric_of,
        parse_bands,
        parse_ranges,
    )

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
        constraint_options=given_options(tags),
        words=recorded_words("topicmappr rebalance", scope),
    )
    bands, ranges = parse_bands(goals.bands), parse_ranges(goals.free_ranges)
    return FrontierRequest(base=rules.limits.on(base), metric=chosen, bands=bands, free_ranges=ranges)


def rebalance_options(
    scope: FrontierScope, rules: FrontierRules, tags: shared.ConstraintOptions
) -> tuple[tuple[str, str | None], ...]:
    """The options of a rebalance with the same selection and rules; it wants brokers and topics named."""
    named = [("--brokers", scope.brokers), ("--topics", scope.topics)]
    left_out = [("--topics-exclude", scope.topics_exclude)] if scope.topics_exclude else []
    return (*named, *left_out, *given_options(rules), *given_options(tags))


def _with_sources(cli: "CliContext", findings: "tuple[Finding, ...]") -> "tuple[Finding, ...]":
    """The findings with commands that read the same file and sizes as this command."""
    return tuple(replace(f, hint=cli.called(f.hint)) for f in findings)
