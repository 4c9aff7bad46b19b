"""Shell completion of tags, from a server or from the cluster and its store of tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.completion import complete_names
from kafkakit.registry.commands.options import TagPlace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkakit.cli.context import CliContext
    from kafkakit.config.read.settings import Settings
    from kafkakit.registry.decide.tags import Tags


def complete_tags(ctx: typer.Context, incomplete: str) -> list[str]:
    """`key:value` texts in use that begin with what is typed."""
    return complete_names(ctx, "tags", incomplete, _read_tags)


def complete_tag_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """The keys of tags in use that begin with what is typed."""
    found = complete_names(ctx, "tags", incomplete, _read_tags)
    return sorted({text.partition(":")[0] for text in found})


def _read_tags(ctx: typer.Context, cli: CliContext, settings: Settings) -> list[str]:
    from kafkakit.cli.session import open_session
    from kafkakit.registry.client import connect
    from kafkakit.registry.decide.tags import Kind

    given = ctx.params
    if given.get("server"):
        files = {f"{name}_file": given.get(f"client_{name}_file") for name in ("token", "ca", "cert", "key")}
        with connect(given["server"], timeout_s=1, **files) as client:
            return _texts([t.tags for t in client.topics().values()] + [b.tags for b in client.brokers().values()])
    place = TagPlace(zk_addr=given.get("zk_addr"), zk_tags_prefix=given.get("zk_tags_prefix") or "registry")
    place.apply(cli)
    with open_session(cli, read_only=True) as session:
        store = place.open(session, 1)
        return _texts([tags for kind in Kind for tags in store.all(kind, []).values()])


def _texts(found: Iterable[Tags]) -> list[str]:
    return sorted({f"{key}:{value}" for tags in found for key, value in tags.items()})
