"""Collecting the facts: reads everything through the sources handed in, and turns every failure into a fact."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from kafkakit.config.security import ProbedListener, Security, parse_addresses
from kafkakit.core.cluster_facts import ClusterInfo, ResourceKind
from kafkakit.core.errors import KafkakitError, UsageError
from kafkakit.core.model import Broker
from kafkakit.core.programs import Versions
from kafkakit.doctor.decide import DoctorFacts
from kafkakit.execution.decide.status_looks import throttled_of, without_moves
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane
from kafkakit.ports.stores import ControlStore
from kafkakit.status.api_act import min_isr_of_unwell

PROBE_TIMEOUT_S = 3.0
PROBES_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorSettings:
    """The part of the settings that the checks need; `load_security` may raise."""

    origin: str
    bootstrap_servers: str
    pinned_cluster: str | None
    load_security: Callable[[], Security]
    control_store: str = "file"


class ProfileChoice(Protocol):
    """Where the choice of a profile comes from, in words."""

    @property
    def origin(self) -> str:
        """The flag, variable or file."""
        ...


class ProfileSettings(Protocol):
    """What the checks read of the merged settings."""

    @property
    def profile(self) -> str | None:
        """The profile in use."""
        ...

    @property
    def choice(self) -> ProfileChoice:
        """How it was chosen."""
        ...

    @property
    def bootstrap_servers(self) -> str:
        """Addresses with commas between."""
        ...

    @property
    def cluster_id(self) -> str | None:
        """The cluster that the profile is pinned to."""
        ...

    @property
    def control_store(self) -> str:
        """Where the lease and control requests are kept."""
        ...

    def origin_of(self, key: str) -> str | None:
        """Where a value comes from."""
        ...


def doctor_settings(settings: ProfileSettings, load_security: Callable[[], Security]) -> DoctorSettings:
    """The settings as the checks need them."""
    profile = f"profile {settings.profile} (from {settings.choice.origin})" if settings.profile else "no profile"
    address = settings.origin_of("bootstrap_server")
    return DoctorSettings(
        origin=f"{profile}; address from {address}" if address else profile,
        bootstrap_servers=settings.bootstrap_servers,
        pinned_cluster=settings.cluster_id,
        load_security=load_security,
        control_store=settings.control_store,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSources:
    """Where the facts come from; each callable may raise `KafkakitError`."""

    versions: Versions
    extras: Mapping[str, tuple[str, ...]]
    find_java: Callable[[], str]
    load_configuration: Callable[[], DoctorSettings]
    probe: Callable[[str, int, float, Security], ProbedListener]
    open_admin: Callable[[], ClusterAdmin]
    open_data: Callable[[], DataPlane]
    open_control: Callable[[], ControlStore]


def collect_facts(sources: FactSources) -> DoctorFacts:
    """Read in order, stopping where the rest would have no address; takes some seconds on a dead cluster."""
    facts = DoctorFacts(versions=sources.versions, extras=sources.extras)
    try:
        facts = replace(facts, java=sources.find_java())
    except KafkakitError as error:
        facts = replace(facts, java_error=error.message)
    try:
        found = sources.load_configuration()
        addresses = parse_addresses(found.bootstrap_servers)
    except UsageError as error:
        return replace(facts, config_error=str(error))
    facts = replace(
        facts,
        config_origin=found.origin,
        bootstrap_servers=found.bootstrap_servers,
        pinned_cluster=found.pinned_cluster,
        control_store=found.control_store,
    )
    try:
        security = found.load_security()
    except UsageError as error:
        return replace(facts, security_error=str(error))
    facts = replace(facts, security=security)
    if not addresses:
        return facts
    listeners = tuple(sources.probe(host, port, PROBE_TIMEOUT_S, security) for host, port in addresses)
    facts = replace(facts, listeners=listeners)
    # Clients would only wait for their time limits where the probe has found no Kafka.
    return _add_cluster_facts(facts, security, sources) if any(item.speaks_kafka for item in listeners) else facts


def _ask_brokers(brokers: Sequence[Broker], security: Security, sources: FactSources) -> dict[int, ProbedListener]:
    """What each broker answers at its advertised address, side by side: one that hangs still takes connections."""
    asked = [b for b in brokers if b.host]
    with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
        answers = pool.map(lambda b: sources.probe(b.host, b.port, PROBE_TIMEOUT_S, security), asked)
        return dict(zip((b.id for b in asked), answers, strict=True))


def _idle_throttles(admin: ClusterAdmin, info: ClusterInfo) -> str:
    """Throttles without moves, in words; the whole cluster is read only where a broker has a rate."""
    alive = [str(b.id) for b in info.brokers if b.is_alive]
    try:
        rates = throttled_of(admin.dynamic_configs(ResourceKind.BROKER, alive), {}).brokers if alive else {}
        if not rates:
            return ""
        snapshot = admin.snapshot(now=datetime.fromtimestamp(0, UTC), sizes=False)  # its time is not used
        inside = [b for b, found in admin.log_dirs([int(b) for b in rates]).items() if found.futures]
    except KafkakitError:  # without the right to read configurations this is not known
        return ""
    throttled = throttled_of(rates, {t.name: t.configs for t in snapshot.topics})
    return without_moves(throttled, snapshot.reassignments, inside)


def _add_cluster_facts(facts: DoctorFacts, security: Security, sources: FactSources) -> DoctorFacts:
    try:
        admin = sources.open_admin()
        try:
            facts = replace(facts, cluster=(info := admin.cluster()))
            facts = replace(facts, brokers=_ask_brokers(info.brokers, security, sources))
            facts = replace(facts, partitions=(found := admin.partition_health()))
            facts = replace(facts, min_isr=min_isr_of_unwell(admin, found), idle_throttles=_idle_throttles(admin, info))
            facts = replace(facts, topic_operations=admin.topic_operations())
        finally:
            admin.close()
    except KafkakitError as error:
        facts = replace(facts, cluster_error=error.message)
    try:
        facts = replace(facts, data_brokers=sources.open_data().reach(PROBE_TIMEOUT_S))
    except KafkakitError as error:
        facts = replace(facts, data_error=error.message)
    if facts.cluster_error is not None or facts.data_error is not None:
        return facts
    try:
        with closing(sources.open_control()) as store:
            store.children("clusters")
    except KafkakitError as error:
        facts = replace(facts, control_error=str(error))
    return facts
