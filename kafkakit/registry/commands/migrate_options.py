"""Which stores tags are copied between."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.option_groups import option
from kafkakit.core.errors import UsageError
from kafkakit.core.tags import cluster_tags_root

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.registry.act.tag_store import TagStore


class TagStoreName(StrEnum):
    """A place where tags can be; `profile` is the profile's control store, whichever it is."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"
    FILE = "file"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationChoice:
    """From where, to where, and into what."""

    source: Annotated[
        TagStoreName,
        typer.Option("--from", help="Where tags are: kafka-kit's znodes, Kafka, files of this host, the profile's."),
    ]
    target: Annotated[TagStoreName, typer.Option("--to", help="Where they are copied to.")]
    zk_addr: str | None = option(
        None, envvar="REGISTRY_ZK_ADDR", metavar="HOST:PORT,...", help="ZooKeeper, for its znodes."
    )
    zk_tags_prefix: str = option(
        "registry", envvar="REGISTRY_ZK_TAGS_PREFIX", help="The znode above tags in ZooKeeper."
    )
    merge: bool = option(False, "--merge", help="Into a store that has other tags: the source's go over them.")

    def apply(self, cli: CliContext) -> None:
        """Make it the ZooKeeper of the invocation; raises `UsageError`."""
        if self.source is self.target:
            raise UsageError(f"--from and --to are both {self.source}")
        if not self.zk_tags_prefix.strip("/"):
            raise UsageError("--zk-tags-prefix is empty")
        if self.zk_addr:
            cli.take("override", [f"zookeeper.addr={self.zk_addr}"], "flag --zk-addr")

    def open(self, session: ClusterSession) -> tuple[TagStore, TagStore]:
        """Source and target; connect on first use. Raises `UsageError` where both are one store."""
        own = TagStoreName(session.settings.control_store)
        if {self.source, self.target} == {TagStoreName.PROFILE, own} and own is not TagStoreName.ZOOKEEPER:
            raise UsageError(f"the profile's control store is {own}: --from and --to are the same")
        return self._store(session, self.source), self._store(session, self.target)

    def _store(self, session: ClusterSession, name: TagStoreName) -> TagStore:
        from kafkakit.registry.act.tag_store import TagStore

        root = cluster_tags_root(session.cluster_id)
        if name is TagStoreName.ZOOKEEPER:
            store, root = session.znodes, self.zk_tags_prefix.strip("/")
        else:
            store = session.control if name is TagStoreName.PROFILE else session.control_of(name)
        return TagStore(store, root)
