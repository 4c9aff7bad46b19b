"""What the Assigner in charge writes about itself, so that `show` and people see what it sees."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from kafkakit.core.documents import DocumentKind

STANDING_PATH, LEASE_PATH, DRAINS_FOLDER = "assigner/standing", "assigner/lease", "assigner/drains"
MOST_LINES = 100
_Text = Annotated[str, Meta(max_length=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStanding:
    """A cluster as the Assigner judges it, and what workers see of it."""

    cluster_id: _Text
    profile: _Text
    reasons: tuple[_Text, ...] = ()
    latency_ms: int = 0
    answering: int = 0
    silent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerStanding:
    """Where an Assigner stands: counts of the last step, clusters, groups' lag, and lines about what it did or not.

    `waiting` partitions are still held by their last owner, `unserved` have no worker that may take them.
    """

    token: int
    at_ms: int
    workers: int
    partitions: int
    waiting: int = 0
    unserved: int = 0
    clusters: tuple[ClusterStanding, ...] = ()
    lags: tuple[tuple[_Text, _Text, int], ...] = ()
    automatic: tuple[_Text, ...] = ()
    problems: tuple[_Text, ...] = ()


STANDING_DOCUMENT = DocumentKind("stream-assigner", AssignerStanding)
