"""What planning commands read: the cluster or a file, with or without sizes; connections are closed after it."""

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import kit_of

if TYPE_CHECKING:
    from pathlib import Path

    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.act.places import ClusterSource


def observed(ctx: typer.Context, snapshot: "Path | None", address: str = "") -> "ClusterSnapshot":
    """The cluster now, at `address` if that is given, or the snapshot file."""
    from kafkakit.cli.session import open_session
    from kafkakit.topicmappr.act.observation import observe

    kit = kit_of(ctx)
    if address:
        kit.use_bootstrap_server(address, "flag --kafka-addr")
    with open_session(kit, read_only=True) as session:
        return observe(session, snapshot)


def observed_storage(ctx: typer.Context, source: "ClusterSource", *, sound_lists: bool = True) -> "Observed":
    """The cluster or file with sizes from where they are wanted."""
    from kafkakit.cli.session import open_session
    from kafkakit.topicmappr.act.observation import observe_storage

    kit = kit_of(ctx)
    if source.address:
        kit.use_bootstrap_server(source.address, "flag --kafka-addr")
    with open_session(kit, read_only=True) as session:
        return observe_storage(session, source, sound_lists=sound_lists)
