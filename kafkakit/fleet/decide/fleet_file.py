"""The file of a fleet: its clusters, how each is reached, and what no cluster tells of itself."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import msgspec
import yaml

from kafkakit.core.errors import InputError, UsageError

LIMIT_BYTES = 4 << 20
T = TypeVar("T")


class HostLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the hosts of a cluster's brokers, which Kafka does not report; None where unknown."""

    open_files: int | None = None
    max_map_count: int | None = None
    connections: int | None = None


class FleetCluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster of the fleet: reached by a profile, or by addresses and a file of client settings.

    `files` are lint's files and folders that declare its topics; `mirror_of` names the cluster that it is a copy of.
    """

    name: str
    profile: str | None = None
    bootstrap_servers: str | None = None
    command_config: str | None = None
    env: str | None = None
    owner: str | None = None
    mirror_of: str | None = None
    labels: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    host: HostLimits = HostLimits()


class _Matching(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of all clusters whose name matches a shell pattern."""

    clusters: str
    env: str | None = None
    owner: str | None = None
    labels: tuple[str, ...] = ()
    host: HostLimits = HostLimits()


class _FleetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafkakit: str
    schema: int
    clusters: tuple[FleetCluster, ...]
    matching: tuple[_Matching, ...] = ()


def read_fleet(data: bytes, source: str) -> tuple[FleetCluster, ...]:
    """The clusters of a fleet file in its order, completed by the patterns that match their names.

    A cluster's own value counts first, then the last pattern that has one; labels add up. Raises `InputError` for a
    file that is none, and for clusters without a name of their own or without a way to reach them.
    """
    try:
        found = msgspec.convert(_loaded(data, source), _FleetFile)
    except msgspec.ValidationError as error:
        raise InputError(source, str(error), hint="docs/fleet.md describes the file") from None
    if found.kafkakit != "fleet" or found.schema != 1:
        raise InputError(source, "is not a fleet file of schema 1", hint="it begins with kafkakit: fleet and schema: 1")
    if not found.clusters:
        raise InputError(source, "names no cluster")
    names = [cluster.name for cluster in found.clusters]
    for cluster in found.clusters:
        if not cluster.name or names.count(cluster.name) > 1:
            raise InputError(source, f"the cluster name {cluster.name!r:.80} is empty or listed twice")
        if (cluster.profile is None) == (cluster.bootstrap_servers is None):
            raise InputError(source, f"cluster {cluster.name} needs either a profile or bootstrap_servers")
    return tuple(_completed(cluster, found.matching) for cluster in found.clusters)


def chosen_clusters(profiles: str | None, fleet: Sequence[FleetCluster] | None) -> tuple[FleetCluster, ...]:
    """The clusters to collect: those of a fleet file, of which `profiles` may choose some by name, or profiles alone.

    Raises `UsageError` when neither is given, or a name is not in the file.
    """
    names = list(dict.fromkeys(name.strip() for name in (profiles or "").split(",") if name.strip()))
    if fleet is None:
        if not names:
            raise UsageError("no cluster is named", hint="give --profiles NAME,... or --fleet FILE")
        return tuple(FleetCluster(name=name, profile=name) for name in names)
    by_name = {cluster.name: cluster for cluster in fleet}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(f"the fleet file has no cluster {', '.join(unknown)}")
    return tuple(by_name[name] for name in names) or tuple(fleet)


def _loaded(data: bytes, source: str) -> object:
    try:
        return yaml.load(data, Loader=_PlainLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(source, f"not valid YAML: {' '.join(str(error).split())[:200]}") from None


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases, with which a small file can stand for a huge one."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("anchors and aliases (& and *) are not supported")
        return super().compose_node(parent, index)


def _completed(cluster: FleetCluster, matching: Sequence[_Matching]) -> FleetCluster:
    fitting = [part for part in matching if fnmatchcase(cluster.name, part.clusters)]
    parts: list[FleetCluster | _Matching] = [cluster, *reversed(fitting)]
    return msgspec.structs.replace(
        cluster,
        env=_first(part.env for part in parts),
        owner=_first(part.owner for part in parts),
        labels=tuple(sorted({label for part in parts for label in part.labels})),
        host=HostLimits(
            open_files=_first(part.host.open_files for part in parts),
            max_map_count=_first(part.host.max_map_count for part in parts),
            connections=_first(part.host.connections for part in parts),
        ),
    )


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)
