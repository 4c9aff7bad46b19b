"""Addresses of a stream's clusters, checked against the ids that its route names."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.streams.model.route import Lane
from kafkakit.streams.routes.show.resolve import ResolvedCluster


class ClusterAddress(NamedTuple):
    """How a profile reaches its cluster; `read_id` connects."""

    bootstrap_servers: str
    security_protocol: str
    read_id: Callable[[], str]


def resolve_clusters(
    lanes: Sequence[Lane], address_of: Callable[[str], ClusterAddress]
) -> tuple[tuple[ResolvedCluster, ...], tuple[str, ...]]:
    """The clusters of lanes by profile, and warnings of those that do not answer.

    Raises `RefusedError` for a profile that reaches another cluster than the route names: clients would, too.
    """
    found: list[ResolvedCluster] = []
    warnings: list[str] = []
    for name, cluster_id in sorted({(s.cluster, s.cluster_id) for lane in lanes for s in lane.segments}):
        address = address_of(name)
        try:
            live: str | None = address.read_id()
        except TryLaterError as error:
            live = None
            warnings.append(f"the address of {name} is not checked: {error.message}")
        if live not in (None, cluster_id):
            raise RefusedError(
                f"profile {name} reaches cluster {live}, and the stream is on cluster {cluster_id}",
                hint="correct the profile's bootstrap_server",
            )
        found.append(
            ResolvedCluster(
                name=name,
                cluster_id=cluster_id,
                bootstrap_servers=address.bootstrap_servers,
                security_protocol=address.security_protocol,
                is_checked=live is not None,
            )
        )
    return tuple(found), tuple(warnings)
