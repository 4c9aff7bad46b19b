"""Quotas of lanes on live clusters: client quotas on the client id that the lane's producers have."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from kafkakit.core.client_quotas import PRODUCER_BYTE_RATE, QuotaEntity
from kafkakit.core.errors import KafkakitError, OperationFailedError, RefusedError
from kafkakit.execution.act.cluster_access import ClusterAccess
from kafkakit.streams.model.route import Lane, lane_client_id

VISIBLE_WITHIN_S = 30.0
POLL_S = 0.2
Claim: TypeAlias = Callable[[str], ClusterAccess]
"""The right to change the cluster of a profile."""


def set_quotas(access: ClusterAccess, stream: str, rates: Mapping[str, int | None]) -> None:
    """Set the quota of each lane in bytes/s a broker, None removes it, and wait until it can be read.

    Quotas of other keys on the same client ids stay. Raises `OperationFailedError` for what the cluster refuses, and
    for a quota that is not seen within 30 s.
    """
    wanted = {QuotaEntity(client_id=lane_client_id(stream, lane)): rate for lane, rate in rates.items()}
    answers = access.admin.alter_client_quotas({entity: {PRODUCER_BYTE_RATE: rate} for entity, rate in wanted.items()})
    for entity, error in answers.items():
        if error is not None:
            raise OperationFailedError(f"the quota of {entity} is not changed: {error}")
    end_s = access.clock.monotonic() + VISIBLE_WITHIN_S
    while True:
        found = access.admin.describe_client_quotas()
        if all(found.get(entity, {}).get(PRODUCER_BYTE_RATE) == rate for entity, rate in wanted.items()):
            return
        if access.clock.monotonic() >= end_s:
            raise OperationFailedError(f"the quotas of stream {stream} cannot be seen after {VISIBLE_WITHIN_S:.0f} s")
        access.clock.sleep(POLL_S)


def limit_lane(claim: Claim, stream: str, lane: Lane, rate: int | None) -> None:
    """Set, or with None remove, the quota of a lane on every cluster that has a segment of it."""
    for profile, cluster_id in _clusters(lane):
        access = claim(profile)
        if access.cluster_id != cluster_id:
            raise RefusedError(f"profile {profile} reaches cluster {access.cluster_id}, not {cluster_id}")
        set_quotas(access, stream, {lane.name: rate})


def remove_quotas(claim: Claim, stream: str, lanes: tuple[Lane, ...]) -> Iterator[str]:
    """Remove the quotas of lanes that a route does not name any more; yields where one stays, and why."""
    for lane in lanes:
        if lane.quota_bytes_per_s is not None:
            try:
                limit_lane(claim, stream, lane, None)
            except KafkakitError as error:
                yield f"the quota of client id {lane_client_id(stream, lane.name)} stays: {error.message}"


def _clusters(lane: Lane) -> list[tuple[str, str]]:
    return sorted({(segment.cluster, segment.cluster_id) for segment in lane.segments})
