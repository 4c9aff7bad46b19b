"""What a request does to the set of brokers: who leaves, who is new, who is missing (kafka-kit's summary)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Broker ids by kind, each sorted; a broker can be both `old_missing` and `replace`.

    `missing` are listed but not live, `old_missing` hold replicas, are not listed and not live, `replace`
    hold replicas and are not listed, `new` are listed and hold none, `rack_missing` are live without a rack.
    `previous_missing` are those of the missing that hold replicas. `targets` are listed and live.
    """

    targets: tuple[int, ...]
    replace: tuple[int, ...]
    new: tuple[int, ...]
    missing: tuple[int, ...]
    old_missing: tuple[int, ...]
    previous_missing: tuple[int, ...]
    rack_missing: tuple[int, ...]

    @property
    def count_change(self) -> int:
        """How many brokers more (or fewer) carry the partitions."""
        return len(self.new) - len(self.replace)

    def messages(self) -> list[str]:
        """The lines of "Broker change summary", grouped as kafka-kit groups them, each group by id."""
        return [
            *(f"Previous broker {b} missing" for b in self.previous_missing),
            *(f"Broker {b} marked for removal" for b in self.replace),
            *(f"Broker {b} not found in ZooKeeper" for b in self.missing if b not in self.previous_missing),
            *(f"New broker {b}" for b in self.new),
            *(f"Broker {b} does not have a rack.id defined" for b in self.rack_missing),
        ]

    def summary(self) -> str:
        """The closing line of the summary."""
        return (
            f"Replacing {len(self.replace)}, added {len(self.new)}, "
            f"missing {len(self.missing) + len(self.old_missing)}, total count changed by {self.count_change}"
        )

    def actions(self, *, force_rebuild: bool, replication: int, optimize_leadership: bool) -> list[str]:
        """The lines under "Action:"; empty means no-op."""
        change, replaced = self.count_change, len(self.replace)
        lines = []
        if change >= 0 and replaced:
            lines.append(f"Rebuild topic with {replaced} broker(s) marked for replacement")
        if change > 0 and not replaced:
            lines.append(
                f"Expanding/rebalancing topic with {len(self.new)} additional broker(s) "
                "(this is a no-op unless --force-rebuild is specified)"
            )
        if change < 0:
            lines.append(f"Shrinking topic by {-change} broker(s)")
        if force_rebuild:
            lines.append("Force rebuilding map")
        if replication:
            lines.append(f"Setting replication factor to {replication}")
        if optimize_leadership:
            lines.append("Optimizing leader/follower ratios")
        return lines

    def warnings(self) -> list[str]:
        """The overridable warnings this change raises."""
        lines = []
        if self.missing:
            lines.append(f"{len(self.missing)} provided brokers not found in ZooKeeper")
        if self.rack_missing:
            lines.append(f"{len(self.rack_missing)} provided broker(s) do(es) not have a rack.id defined")
        return lines


def classify_unseen(holding: Iterable[int], listed: Iterable[int]) -> BrokerChange:
    """Compare without knowing the cluster's brokers: all are taken as live, and none as lacking a rack."""
    held, wanted = set(holding), set(listed)
    return BrokerChange(
        targets=tuple(sorted(wanted)),
        replace=tuple(sorted(held - wanted)),
        new=tuple(sorted(wanted - held)),
        missing=(),
        old_missing=(),
        previous_missing=(),
        rack_missing=(),
    )


def classify(holding: Iterable[int], listed: Iterable[int], live: Mapping[int, str | None]) -> BrokerChange:
    """Compare the brokers that hold replicas with the listed ones; `live` maps each live broker to its rack."""
    held, wanted = set(holding), set(listed)
    present = {b for b in held | wanted if b in live}
    return BrokerChange(
        targets=tuple(sorted(wanted & present)),
        replace=tuple(sorted(held - wanted)),
        new=tuple(sorted((wanted - held) & present)),
        missing=tuple(sorted(wanted - present)),
        old_missing=tuple(sorted(held - wanted - present)),
        previous_missing=tuple(sorted(held - present)),
        rack_missing=tuple(sorted(b for b in present if not live[b])),
    )
