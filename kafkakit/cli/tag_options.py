"""Where commands read tags from that answer queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.core.model import TagSet
    from kafkakit.execution.act.retrier import TagPlaces


@dataclass(frozen=True, slots=True, kw_only=True)
class TagSource:
    """The profile's control store, or the znodes of kafka-kit's registry."""

    zk_tags_prefix: str = option(
        "",
        envvar="REGISTRY_ZK_TAGS_PREFIX",
        help="Read tags from kafka-kit's znodes below this path, and not from the profile's control store.",
    )

    def read(self, session: TagPlaces) -> TagSet:
        """All tags; `TryLaterError` where the store does not answer."""
        from kafkakit.core.model import cluster_tags_root
        from kafkakit.execution.act.retrier import read_tags

        if self.zk_tags_prefix:
            return read_tags(session.znodes, self.zk_tags_prefix.strip("/"))
        return read_tags(session.control, cluster_tags_root(session.cluster_id))


NO_TAGS = TagSource()
