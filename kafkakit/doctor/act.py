"""Making the visit: asks everything through what it is handed, and turns every failure into a fact."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from kafkakit.config.addresses import parse_addresses
from kafkakit.config.listeners import Listener
from kafkakit.config.security import Security
from kafkakit.core.errors import KafkakitError, UsageError
from kafkakit.core.versions import Versions
from kafkakit.doctor.visit import Visit
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.control import ControlStore
from kafkakit.ports.data import DataPlane

PROBE_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The part of the settings that a visit needs; `load_security` may raise."""

    origin: str
    bootstrap_servers: str
    pinned_cluster: str | None
    load_security: Callable[[], Security]
    control_store: str = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """What the visit asks with; each callable may raise `KafkakitError`."""

    versions: Versions
    extras: Mapping[str, tuple[str, ...]]
    find_java: Callable[[], str]
    load_configuration: Callable[[], Configured]
    probe: Callable[[str, int, float, Security], Listener]
    open_admin: Callable[[], ClusterAdmin]
    open_data: Callable[[], DataPlane]
    open_control: Callable[[], ControlStore]


def make_visit(instruments: Instruments) -> Visit:
    """Ask in order, stopping where the rest would have nothing to ask; takes some seconds on a dead cluster."""
    visit = Visit(versions=instruments.versions, extras=instruments.extras)
    try:
        visit = replace(visit, java=instruments.find_java())
    except KafkakitError as error:
        visit = replace(visit, java_error=error.message)
    try:
        configured = instruments.load_configuration()
        addresses = parse_addresses(configured.bootstrap_servers)
    except UsageError as error:
        return replace(visit, config_error=str(error))
    visit = replace(
        visit,
        config_origin=configured.origin,
        bootstrap_servers=configured.bootstrap_servers,
        pinned_cluster=configured.pinned_cluster,
        control_store=configured.control_store,
    )
    try:
        security = configured.load_security()
    except UsageError as error:
        return replace(visit, security_error=str(error))
    visit = replace(visit, security=security)
    if not addresses:
        return visit
    listeners = tuple(instruments.probe(host, port, PROBE_TIMEOUT_S, security) for host, port in addresses)
    visit = replace(visit, listeners=listeners)
    # Clients would only wait for their time limits where the probe has found nobody to talk to.
    return _ask_cluster(visit, instruments) if any(item.speaks_kafka for item in listeners) else visit


def _ask_cluster(visit: Visit, instruments: Instruments) -> Visit:
    try:
        admin = instruments.open_admin()
        try:
            visit = replace(visit, cluster=admin.cluster())
        finally:
            admin.close()
    except KafkakitError as error:
        visit = replace(visit, cluster_error=error.message)
    try:
        visit = replace(visit, data_brokers=instruments.open_data().reach(PROBE_TIMEOUT_S))
    except KafkakitError as error:
        visit = replace(visit, data_error=error.message)
    if visit.cluster_error is not None or visit.data_error is not None:
        return visit
    try:
        with closing(instruments.open_control()) as store:
            store.children("clusters")
    except KafkakitError as error:
        visit = replace(visit, control_error=str(error))
    return visit
