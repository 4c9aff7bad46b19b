"""The options of `streams assigner`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option
from kafkakit.streams.assigner.decide.policy import AutomaticMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.streams.assigner.act.leader import AssignerOptions
    from kafkakit.streams.assigner.decide.policy import AutomaticPolicy
    from kafkakit.streams.assigner.decide.simulation import FleetShape


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """The times of the loop, and when a cluster counts as unreachable and as healthy."""

    tick: str = option("200ms", "--tick", metavar="DURATION", help="How often workers are looked at.")
    lease_ttl: str = option(
        "3s", "--lease-ttl", metavar="DURATION", help="How long another Assigner waits before it takes over."
    )
    balance_after: str = option(
        "1m",
        "--balance-after",
        metavar="DURATION",
        help="Move partitions for balance when no worker came or went for this long.",
    )
    down_after: str = option(
        "1.5s", "--down-after", metavar="DURATION", help="A cluster that is silent for this long is unreachable."
    )
    healthy_after: str = option(
        "30s", "--healthy-after", metavar="DURATION", help="What was wrong is over when it was not seen for this long."
    )
    max_disk_use: str = option(
        "90%", "--max-disk-use", metavar="PERCENT", help="A cluster with a fuller log dir is not healthy: disk-full."
    )

    def parsed(self) -> AssignerOptions:
        """The values; `UsageError` for what is no duration or no percentage."""
        from kafkakit.core.durations import parse_duration
        from kafkakit.core.quantities import parse_percent
        from kafkakit.streams.assigner.act.leader import AssignerOptions
        from kafkakit.streams.assigner.decide.health import HealthRules

        return AssignerOptions(
            tick_s=parse_duration(self.tick, "--tick"),
            lease_ttl_s=parse_duration(self.lease_ttl, "--lease-ttl"),
            balance_after_s=parse_duration(self.balance_after, "--balance-after"),
            health=HealthRules(
                down_s=parse_duration(self.down_after, "--down-after"),
                leave_s=parse_duration(self.healthy_after, "--healthy-after"),
                disk_used=float(parse_percent(self.max_disk_use, "--max-disk-use")),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """When streams are failed over without an operator."""

    auto_failover: AutomaticMode = option(
        AutomaticMode.OFF,
        "--auto-failover",
        help="Fail streams over from a cluster that nothing reaches: off, dry-run (only report), on.",
    )
    failover_target: list[str] | None = option(
        None,
        "--failover-target",
        metavar="FROM=TO",
        help="Where streams of a cluster go, by profiles. Repeatable; a cluster without one is left alone.",
    )
    confirm: str = option(
        "10s", "--confirm", metavar="DURATION", help="How long the cluster must have been unreachable."
    )
    witnesses: int = option(
        2, "--witnesses", min=1, metavar="N", help="So many workers must have got no answer either."
    )
    quorum: float = option(
        0.6, "--quorum", min=0.51, max=1.0, metavar="PART", help="And this part of the workers that read the cluster."
    )
    cool_down: str = option(
        "1h", "--cool-down", metavar="DURATION", help="A stream is not moved again by itself for this long."
    )
    failovers_a_day: int = option(
        10, "--failovers-a-day", min=1, max=500, metavar="N", help="So many streams at most are moved in 24 h."
    )

    def parsed(self, require_profile: Callable[[str], object]) -> AutomaticPolicy:
        """The policy; `UsageError` for one that makes no sense, or where `require_profile` raises it for a name."""
        from kafkakit.core.durations import parse_duration
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.assigner.decide.policy import AutomaticPolicy

        pairs = [each.partition("=") for each in self.failover_target or ()]
        if not all(source and target for source, _, target in pairs):
            raise UsageError("--failover-target is FROM=TO, two profiles")
        if len({source for source, _, _ in pairs}) < len(pairs):
            raise UsageError("--failover-target names two targets for one cluster")
        for source, _, target in pairs:
            require_profile(source)
            require_profile(target)
        return AutomaticPolicy(
            mode=self.auto_failover,
            targets={source: target for source, _, target in pairs},
            confirm_s=parse_duration(self.confirm, "--confirm"),
            witnesses=self.witnesses,
            quorum=self.quorum,
            cool_down_s=parse_duration(self.cool_down, "--cool-down"),
            per_day=self.failovers_a_day,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """The fleet of a simulation."""

    clusters: int = option(2, "--clusters", min=1, metavar="N", help="Clusters.")
    streams: int = option(10, "--streams", min=1, metavar="N", help="Streams, each on one cluster.")
    partitions: int = option(12, "--partitions", min=1, metavar="N", help="Partitions of each stream.")
    workers: int = option(10, "--workers", min=1, metavar="N", help="Workers, of three sizes.")
    pools: int = option(1, "--pools", min=1, metavar="N", help="Pools that workers and streams are divided into.")
    zones: int = option(3, "--zones", min=1, metavar="N", help="Zones of workers and of leaders.")
    seed: int = option(1, "--seed", metavar="N", help="Another seed makes another fleet.")

    def shape(self) -> FleetShape:
        """The numbers."""
        from kafkakit.streams.assigner.decide.simulation import FleetShape

        return FleetShape(
            clusters=self.clusters,
            streams=self.streams,
            partitions=self.partitions,
            workers=self.workers,
            pools=self.pools,
            zones=self.zones,
            seed=self.seed,
        )
