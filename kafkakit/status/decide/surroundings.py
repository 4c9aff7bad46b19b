"""What is around a cluster's data: kafkakit's own services, moves, certificates of brokers, and their versions.

What is known of a service is its lease, which it renews while it leads: a service that never led is not spoken of.
Clocks of hosts are compared here, which decides nothing: a service counts as silent only long after its lease has run
out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kafkakit.core.findings import Finding, Rule, Severity, minor_version, shorten
from kafkakit.core.lease import LeaseRecord, Life
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.text import few_of, sanitize
from kafkakit.execution.decide.status import StatusView
from kafkakit.status.decide.ignore import IgnoreRules

SILENT_S, SILENT_TTLS = 60.0, 3
"""A lease that was not renewed for so long, and for so many of its terms, is of a service that is gone."""

SERVICE_STOPPED = Rule("service-stopped", Severity.WARNING, "services that are needed run")
CERTIFICATE = Rule("certificate", Severity.WARNING, "certificates do not end soon")
VERSIONS = Rule("versions", Severity.NOTE, "all brokers run one version, and use all of it")


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
        yield rule.finding("certificates", message, show(part[0]), len(part), tuple(part))


def version_findings(
    versions: Mapping[int, str], kafka_version: str | None, show: str, *, has_quorum: bool
) -> Iterator[Finding]:
    """Brokers that differ in the protocol version they speak, or that all speak an older one than they could.

    Kafka 4 has no such version, and its metadata.version takes a request that is not made: of clusters with a quorum
    it is only told that brokers differ.
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
