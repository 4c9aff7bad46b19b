"""The audit `hotspots`: what counts as far above its peers, and the sentences on partitions and brokers that are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding
from kafkakit.core.quantities import format_rate
from kafkakit.core.text import quote

JOB = "hotspots"
NORMAL_MAD = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
HOT_SHARE = 0.75
"""In how many of its hours something must be above its peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """When a value of an hour is far above those of its peers: all of these must hold.

    There are at least `least` peers with values, itself among them; it is at least `floor`, more than `factor` times
    the median, and more than `deviations` (median absolute ones, scaled to standard deviations) above it.
    """

    least: int
    floor: float
    factor: float
    deviations: float


PARTITION_BYTES = Peers(least=5, floor=100e3, factor=4.0, deviations=6.0)
PARTITION_MESSAGES = Peers(least=5, floor=100.0, factor=4.0, deviations=6.0)
BROKER_BYTES = Peers(least=4, floor=1e6, factor=1.5, deviations=5.0)

HOT_PARTITION = Rule(
    "hot-partition",
    Severity.WARNING,
    "No partition takes far more bytes than the others of its topic.",
    "Its broker and its consumer are busy while those of the others wait.",
    "look for producers that write larger records to this partition",
    code="KKH001",
)
UNBALANCED_KEYS = Rule(
    "unbalanced-keys",
    Severity.WARNING,
    "No partition takes far more messages than the others of its topic.",
    "A few keys make up the traffic; more partitions or consumers do not help.",
    "spread the busiest keys in the producer (append a number to them), or give them a topic of their own",
    code="KKH002",
)
LEADS_MOST = Rule(
    "broker-leads-most-traffic",
    Severity.WARNING,
    "No broker leads partitions with far more traffic than the other brokers.",
    "It is the first to be overloaded, and its loss hits most producers.",
    "spread the leaders with `kafkakit topicmappr leaders`, or the partitions with `kafkakit topicmappr rebalance`",
    code="KKH003",
)
SERVES_MOST = Rule(
    "broker-serves-most-reads",
    Severity.WARNING,
    "No broker sends consumers far more than the other brokers.",
    "Its network is the first to be full, and consumers of its partitions fall behind.",
    "spread the leaders with `kafkakit topicmappr leaders`",
    code="KKH004",
)
RULES = (HOT_PARTITION, UNBALANCED_KEYS, LEADS_MOST, SERVES_MOST)


def partition_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """A partition that is far above its topic's others, by messages if by these, else by bytes.

    The row has `topic`, `id`, `hours`, and of bytes (`first_`) and messages (`second_`) `hot` (in how many hours),
    `mean` and `median` (of the peers).
    """
    by_messages = row["second_hot"] >= HOT_SHARE * row["hours"]
    which, rule = ("second_", UNBALANCED_KEYS) if by_messages else ("first_", HOT_PARTITION)
    mean, median = row[f"{which}mean"], row[f"{which}median"]
    mean_text, median_text = (f"{v:,.0f} messages/s" if by_messages else format_rate(v) for v in (mean, median))
    message = f"takes {mean_text}, {_above(mean, median, median_text)} of its topic, {_hours(row, which)}"
    finding = rule.finding(f"partition {row['topic']}-{row['id']} of {row['cluster']}", message)
    yield audit_finding(JOB, row["cluster"], finding, blast=row["first_mean"] / 1e6)


def broker_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """A broker that is far above the others of its cluster; the row is as that of partitions, of bytes in and out."""
    repair = f"kafkakit --profile {quote(row['cluster'])} topicmappr leaders --plan plan.json"
    for which, rule, verb in (("first_", LEADS_MOST, "leads partitions with"), ("second_", SERVES_MOST, "sends")):
        if row[f"{which}hot"] < HOT_SHARE * row["hours"]:
            continue
        mean, median = row[f"{which}mean"], row[f"{which}median"]
        message = f"{verb} {format_rate(mean)}, {_above(mean, median, format_rate(median))} of the cluster's brokers, "
        finding = rule.finding(f"broker {row['id']} of {row['cluster']}", message + _hours(row, which))
        yield audit_finding(JOB, row["cluster"], finding, blast=mean / 1e6, repair=repair)


def _above(mean: float, median: float, text: str) -> str:
    return f"{mean / median:.3g} times the median ({text})" if median > 0 else f"where the median is {text}"


def _hours(row: Mapping[str, Any], which: str) -> str:
    return f"in {row[f'{which}hot']} of {row['hours']} hours" if row["hours"] > 1 else "when it was looked at"
