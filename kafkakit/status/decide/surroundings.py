"""What is around a cluster's data: controllers, disks, kafkakit's own services, moves, certificates and versions.

What is known of a service is its lease, which it renews while it leads: a service that never led is not spoken of.
Clocks of hosts are compared here, which decides nothing: a service counts as silent only long after its lease has run
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import BrokerLogDirs, MetadataVersion, Quorum, Voter
from kafkakit.core.findings import Finding, Rule, Severity, minor_version, shorten
from kafkakit.core.lease import LeaseRecord, Life
from kafkakit.core.model import Broker, LogDir
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.text import ShellCommand, few_of, kubectl_command, sanitize
from kafkakit.execution.decide.status import StatusView
from kafkakit.status.decide.history import StatusHistory, disk_left_s, used_share
from kafkakit.status.decide.ignore import IgnoreRules

if TYPE_CHECKING:
    from kafkakit.kubernetes.brokers import BrokerPod, ClusterPods, VolumeGrowth

SILENT_S, SILENT_TTLS = 60.0, 3
"""A lease that was not renewed for so long, and for so many of its terms, is of a service that is gone."""

NO_CONTROLLER = Rule("no-controller", Severity.ERROR, "the quorum has a leader")
QUORUM_LAG = Rule("quorum-lag", Severity.WARNING, "voters have what the leader has")
DIR_OFFLINE = Rule("dir-offline", Severity.ERROR, "all log dirs are online")
DISK = Rule("disk", Severity.WARNING, "disks have room")
SERVICE_STOPPED = Rule("service-stopped", Severity.WARNING, "services that are needed run")
CERTIFICATE = Rule("certificate", Severity.WARNING, "certificates do not end soon")
CORDONED = Rule("cordoned", Severity.NOTE, "brokers take new replicas")
VERSIONS = Rule("versions", Severity.NOTE, "all brokers run one version, and use all of it")

POD_MISSING = Rule("pod-missing", Severity.WARNING, "every broker has a pod")
POD_NOT_READY = Rule("pod-not-ready", Severity.WARNING, "the pods of brokers are ready")
POD_EXTRA = Rule("pod-without-broker", Severity.WARNING, "every pod of the cluster is a broker of it")
POD_ID = Rule("pod-id", Severity.WARNING, "brokers have the addresses of their pods")
RACK_ZONE = Rule("rack-zone", Severity.WARNING, "broker.rack is the zone of the broker's node")
VOLUME = Rule("volume", Severity.ERROR, "every claim of a broker has its volume")
RESIZE = Rule("volume-resize", Severity.NOTE, "volumes have the size that their claims ask for")
POD_CHECKS = (POD_MISSING, POD_NOT_READY, POD_EXTRA, POD_ID, RACK_ZONE, VOLUME, RESIZE)


class ServiceName(StrEnum):
    """The services, as people call them."""

    MONITOR = "lag monitor"
    PACER = "autothrottle pacer"
    ASSIGNER = "stream assigner"
    REGISTRY = "registry cleanup"


_COMMANDS = {
    ServiceName.MONITOR: "streams lag watch",
    ServiceName.PACER: "autothrottle show",
    ServiceName.ASSIGNER: "streams assigner show",
    ServiceName.REGISTRY: "registry topics",
}
_NEEDED_FOR = {
    ServiceName.PACER: "moves run under throttles that it set",
    ServiceName.ASSIGNER: "partitions of {} are assigned, and no others would take over from a dead worker",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenService:
    """A service by its lease; `needs` names what waits for it: brokers with its throttles, or streams it assigned."""

    name: ServiceName
    record: LeaseRecord
    life: Life = Life.UNKNOWN
    needs: tuple[str, ...] = ()

    def is_alive(self, now: datetime) -> bool:
        """Whether it leads, as far as is known."""
        silent_s = (now - self.record.renewed_at).total_seconds()
        is_silent = silent_s > max(SILENT_S, SILENT_TTLS * self.record.ttl_s)
        return self.record.holder is not None and self.life is not Life.GONE and not is_silent

    def words(self, now: datetime) -> str:
        """How it is in a few words."""
        record, holder = self.record, self.record.holder
        if holder is not None and self.is_alive(now):
            age = format_rough_time((now - record.taken_at).total_seconds())
            return f"{self.name} leads for {age}, process {holder.pid} on {sanitize(holder.host)}"
        ago = format_rough_time((now - record.renewed_at).total_seconds())
        return f"{self.name} stopped: last seen {ago} ago"


def service_findings(
    services: Sequence[SeenService], now: datetime, *, is_moving: bool, show: Callable[[str], str]
) -> Iterator[Finding]:
    """The services that do not lead while something waits for them; `show` makes the command from its words."""
    for one in services:
        is_needed = bool(one.needs) and (one.name is not ServiceName.PACER or is_moving)
        if is_needed and not one.is_alive(now) and one.name in _NEEDED_FOR:
            ago = format_rough_time((now - one.record.renewed_at).total_seconds())
            how = "was stopped" if one.record.holder is None else "vanished"
            why = _NEEDED_FOR[one.name].format(few_of(one.needs))
            yield SERVICE_STOPPED.finding(
                f"service {one.name}", f"{one.name} {how} {ago} ago, but {why}", show(_COMMANDS[one.name]),
                parts=(one.name.value,),
            )  # fmt: skip


def certificate_findings(
    ends: Mapping[int, datetime],
    now: datetime,
    ignore: IgnoreRules,
    *,
    show: Callable[[str], str],
    warning: timedelta,
    error: timedelta,
) -> Iterator[Finding]:
    """One finding for all brokers whose certificates end within `warning`; an error within `error`."""
    ending = {str(broker): until for broker, until in sorted(ends.items()) if until - now < warning}
    for part in ignore.split(CERTIFICATE.name, list(ending), list(ending)):
        if not part:
            continue
        first = min(ending[broker] for broker in part)
        left = (first - now).total_seconds()
        verb = "expire" if len(part) > 1 else "expires"
        when = f"{verb} in {format_rough_time(left)}" if left > 0 else "expired"
        rule = Rule(CERTIFICATE.name, Severity.ERROR, CERTIFICATE.about) if first - now < error else CERTIFICATE
        message = f"{shorten(part)} {when} ({first:%Y-%m-%d})"
        yield rule.finding("certificates", message, show(part[0]), len(part), tuple(part), tuple(part))


def version_findings(
    versions: Mapping[int, str],
    kafka_version: str | None,
    show: str,
    *,
    has_quorum: bool,
    metadata: Mapping[int, MetadataVersion],
) -> Iterator[Finding]:
    """Brokers that differ in the protocol version they speak, or that all speak an older one than they could.

    Kafka 4 has no such version, and clusters with a quorum do not use it: there the levels of `metadata.version` count.
    """
    by_version: dict[str, list[int]] = {}
    for broker, version in sorted(versions.items()):
        by_version.setdefault(version, []).append(broker)
    if len(by_version) > 1:
        told = ", ".join(f"{version} on {few_of(ids)}" for version, ids in sorted(by_version.items()))
        message = f"brokers differ in version: {told}; a rolling upgrade is under way, or was left half way"
        yield VERSIONS.finding("brokers", message, show)
        return
    newest = minor_version(kafka_version)
    for version in () if has_quorum else by_version:
        used = minor_version(version)
        if used is not None and newest is not None and used < newest:
            message = f"brokers run Kafka {newest[0]}.{newest[1]} and speak {version} to each other"
            yield VERSIONS.finding("brokers", f"{message}: the upgrade is not finished", show)
    yield from _metadata_findings(metadata, show)


def _metadata_findings(known: Mapping[int, MetadataVersion], show: str) -> Iterator[Finding]:
    by_newest: dict[int, list[int]] = {}
    for broker, version in sorted(known.items()):
        by_newest.setdefault(version.newest, []).append(broker)
    if len(by_newest) > 1:
        told = ", ".join(f"up to {newest} on {few_of(ids)}" for newest, ids in sorted(by_newest.items()))
        message = f"brokers know different levels of metadata.version: {told}"
        yield VERSIONS.finding("brokers", f"{message}; a rolling upgrade is under way, or was left half way", show)
        return
    in_force = min((version.in_force for version in known.values()), default=0)
    for newest in by_newest:
        if in_force < newest:
            message = f"metadata.version is at level {in_force}, and all brokers know {newest}"
            yield VERSIONS.finding("brokers", f"{message}: the upgrade is not finished", show)


def moves_words(view: StatusView) -> str:
    """How many moves run, how much is copied, and when they end where that is known."""
    eta = [run.eta_s for run in view.runs if run.eta_s is not None]
    parts = [count_of(len(view.moves) + len(view.inside), "move")]
    if view.total_bytes:
        parts.append(f"{format_bytes(view.copied_bytes)} of {format_bytes(view.total_bytes)}")
    if eta:
        parts.append(f"ETA {format_rough_time(max(eta))}")
    owners = [run.name for run in view.runs if run.moves]
    foreign = sum(not m.run for m in view.moves)
    if foreign:
        owners.append(f"{foreign} of another tool or host")
    return ", ".join(parts) + (f"; {'; '.join(owners)}" if owners else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSummary:
    """What the last `lint --live` of this host found in the cluster."""

    at: datetime
    errors: tuple[str, ...] = ()
    warnings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOperation:
    """A failover or an evacuation of a stream that is under way, and the command that shows it."""

    stream: str
    what: str
    show: ShellCommand


def late_voters(quorum: Quorum, limit_ms: int) -> list[Voter] | None:
    """The voters that are further behind than `limit_ms`, or that the leader has not heard of while it has of others.

    None where nothing is known of any voter: without a leader, and before Kafka 3.3.
    """
    if all(v.behind_ms is None for v in quorum.voters):
        heard = [v for v in quorum.voters if v.behind_records is not None]
        return [v for v in quorum.voters if v not in heard] or None if heard and quorum.leader is not None else None
    return [v for v in quorum.voters if v.behind_ms is None or v.behind_ms > limit_ms]


def quorum_findings(quorum: Quorum, limit_ms: int, show: str) -> Iterator[Finding]:
    """A quorum without a leader, and voters that do not keep up; an error where no majority does."""
    if quorum.leader is None:
        yield NO_CONTROLLER.finding("controllers", "no controller leads: nothing can be changed", show)
    late = late_voters(quorum, limit_ms)
    if not late:
        return

    def words(voter: Voter) -> str:
        if voter.behind_ms is None:
            return f"{voter.id} has not caught up since the leader was elected"
        return f"{voter.id} is {format_rough_time(voter.behind_ms / 1000)} behind"

    rule = QUORUM_LAG
    if 2 * (len(quorum.voters) - len(late)) <= len(quorum.voters):
        rule = Rule(QUORUM_LAG.name, Severity.ERROR, QUORUM_LAG.about)
    message = f"{'voter' if len(late) == 1 else 'voters'} {shorten([words(v) for v in late])}"
    ids = tuple(str(v.id) for v in late)
    yield rule.finding("controllers", message, show, len(late), ids, ids)


def disk_findings(
    disks: Mapping[int, BrokerLogDirs],
    now: datetime,
    history: StatusHistory,
    *,
    show: Callable[[int], str],
    start: Callable[[int], str],
    grow: Callable[[int, LogDir, float | None], VolumeGrowth | None] | None,
    limits: tuple[float, float, float],
) -> Iterator[Finding]:
    """Log dirs that are offline, full, or soon full; `limits` are shares for a warning and an error, and seconds.

    Where a dir's volume can `grow`, the command for that is the repair.
    """
    warning, error, soon_s = limits
    for number, answer in sorted(disks.items()):
        for place in answer.log_dirs:
            where = f"broker {number} {place.path}"
            if place.error:
                yield DIR_OFFLINE.finding(where, f"{number} {place.path} is offline: {place.error}", start(number))
                continue
            share = used_share(place)
            if share is None:
                continue
            left_s = disk_left_s(history, number, place, now)
            is_soon = left_s is not None and left_s < soon_s
            if share >= warning or is_soon:
                severity = Severity.ERROR if share >= error or is_soon else Severity.WARNING
                left = "" if left_s is None else f"; {format_rough_time(left_s)} left at this rate"
                growth = grow(number, place, left_s) if grow is not None else None
                message = f"{number} {place.path} is {share:.0%} full{left}"
                message += f"; {growth.words}" if growth is not None else ""
                hint = growth.command if growth is not None else show(number)
                yield Rule(DISK.name, severity, DISK.about).finding(where, message, hint)


def cordon_findings(cordoned: Mapping[int, str], show: Callable[[str], str]) -> Iterator[Finding]:
    """The brokers that `broker cordon` keeps new replicas off, each with its reason."""
    for broker, reason in sorted(cordoned.items()):
        why = f": {sanitize(reason)}" if reason else ""
        message = f"{broker} is cordoned and gets no new replica{why}"
        yield CORDONED.finding(f"broker {broker}", message, show(str(broker)))


# -- pods and volumes of Kubernetes


def pod_findings(found: ClusterPods, brokers: Mapping[int, Broker], *, show: Callable[..., str]) -> Iterator[Finding]:
    """What is wrong with the pods of a cluster's brokers; `show` makes a command of kafkakit from its words.

    O(brokers); `brokers` are those that are registered.
    """
    lacking = sorted(brokers.keys() - found.pods.keys())
    if brokers and len(lacking) == len(brokers):
        message = f"no pod of {found.title} has the id of a broker ({few_of(sorted(brokers))}): another cluster's pods?"
        yield POD_MISSING.finding("pods", message, kubectl_command("get pods", namespace=found.namespace))
        return
    yield from _missing_findings(found, lacking)
    by_name = {pod.pod.name: number for number, pod in found.pods.items()}
    for number, pod in found.pods.items():
        name, where = sanitize(pod.pod.name[:200]), f"broker {number}"
        describe = kubectl_command("describe pod", pod.pod.name, pod.pod.namespace)
        if number not in brokers:
            yield POD_EXTRA.finding(where, f"pod {name} is not a broker of the cluster", describe)
        elif (other := _address_of_other(brokers[number], by_name)) is not None:
            message = (
                f"{number} has the address of pod {other}, and {name} was taken for it; set --id-label or --first-id"
            )
            yield POD_ID.finding(where, message, kubectl_command("get pods", namespace=found.namespace))
        if pod.state not in ("ready", "?"):
            on = f" on node {sanitize(pod.pod.node[:200])}" if pod.pod.node else ""
            yield POD_NOT_READY.finding(where, f"{number}: pod {name}{on} is {pod.state}", describe)
        yield from _zone_findings(number, pod, brokers.get(number))
        yield from _volume_findings(number, pod, show)


def _missing_findings(found: ClusterPods, lacking: Sequence[int]) -> Iterator[Finding]:
    for each in found.missing:
        name, (kind, _, owner) = sanitize(each.name[:200]), each.owner.partition(" ")
        where = f"pod {name}" if each.broker is None else f"broker {each.broker}"
        number = "" if each.broker is None else f"{each.broker}: "
        message = f"{number}pod {name} of {sanitize(each.owner[:200])} is missing"
        yield POD_MISSING.finding(where, message, kubectl_command(f"describe {kind.lower()}", owner, found.namespace))
    told = {each.broker for each in found.missing}
    for lone in lacking:
        if lone not in told:
            message = f"{lone} has no pod in {sanitize(found.source)}"
            yield POD_MISSING.finding(f"broker {lone}", message, kubectl_command("get pods", namespace=found.namespace))


def _address_of_other(broker: Broker, by_name: Mapping[str, int]) -> str | None:
    """The pod that a broker's address names, if another one was taken for it."""
    host = broker.host.partition(".")[0]
    return sanitize(host[:200]) if by_name.get(host, broker.id) != broker.id else None


def _zone_findings(number: int, pod: BrokerPod, broker: Broker | None) -> Iterator[Finding]:
    if broker is None or pod.zone is None or pod.node is None or broker.rack == pod.zone:
        return
    zone, rack = sanitize(pod.zone[:100]), sanitize((broker.rack or "")[:100])
    said = f"has broker.rack {rack}" if broker.rack else "has no broker.rack"
    message = f"{number} {said}, and its node {sanitize(pod.node.name[:200])} is in zone {zone}"
    yield RACK_ZONE.finding(
        f"broker {number}", message, f"{kubectl_command('get node', pod.node.name)} -L {pod.node.zone_label}"
    )


def _volume_findings(number: int, pod: BrokerPod, show: Callable[..., str]) -> Iterator[Finding]:
    where = f"broker {number}"
    for volume in pod.volumes:
        name = sanitize(volume.name[:200])
        describe = kubectl_command("describe pvc", volume.name, pod.pod.namespace)
        parts = (volume.name,)
        if volume.state in ("Lost", "Failed", "Released"):
            what = "claim" if volume.claim is not None and volume.claim.phase == volume.state else "the volume of claim"
            message = f"{number}: {what} {name} is {volume.state}: the broker lost what it held"
            repair = show("topicmappr repair", brokers=str(number), plan="repair.json")
            yield VOLUME.finding(where, message, repair, parts=parts)
        elif volume.state not in (None, "Bound"):
            yield VOLUME.finding(
                where, f"{number}: claim {name} is {sanitize(str(volume.state)[:40])}", describe, parts=parts
            )
        elif volume.is_growing:
            sizes = f"{format_bytes(volume.size_bytes)} of {format_bytes(volume.requested_bytes)}"
            message = f"{number}: claim {name} has {sizes} that it asks for: a resize is pending"
            yield RESIZE.finding(where, message, describe, parts=parts)
