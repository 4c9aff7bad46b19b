"""The options that commands about commits share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit

if TYPE_CHECKING:
    from kafkakit.streams.commits.show.picture import Style
    from kafkakit.streams.formats.identity import CommitIdentity

Offset = Annotated[
    int, typer.Option("--offset", metavar="N", min=0, help="The committed offset that the metadata came with.")
]
ClusterId = Annotated[str, typer.Option("--cluster-id", metavar="ID", help="The cluster that it was committed to.")]
TopicId = Annotated[
    str, typer.Option("--topic-id", metavar="ID", help="The topic's id: a UUID, or the 22 characters Kafka prints.")
]
PastedPartition = Annotated[
    int | None, typer.Option("--partition", metavar="N", min=0, help="The partition.", show_default=False)
]
PastedGroup = Annotated[str, typer.Option("--group", metavar="NAME", help="The group that committed it.")]
Width = Annotated[
    int | None,
    typer.Option(
        "--width", metavar="COLUMNS", min=20, help="Draw this wide; the terminal's width when not given.",
        show_default=False,
    ),
]  # fmt: skip
Ascii = Annotated[
    bool, typer.Option("--ascii", help="Draw with ASCII alone, as is done where the output is not UTF-8.")
]

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)]
Topic = Annotated[str, typer.Option("--topic", metavar="NAME", help="Of this topic only.")]
Partition = Annotated[
    int | None, typer.Option("--partition", metavar="N", min=0, help="Of this partition only.", show_default=False)
]


def identity_from(cluster_id: str, topic_id: str, partition: int | None, group: str) -> CommitIdentity | None:
    """The identity that all four options give, None when none was given; `UsageError` for some of them."""
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.formats.identity import CommitIdentity, topic_id_bytes

    given = (bool(cluster_id), bool(topic_id), partition is not None, bool(group))
    if not any(given):
        return None
    if partition is None or not all(given):
        raise UsageError(
            "an identity has four parts", hint="give --cluster-id, --topic-id, --partition and --group, or none of them"
        )
    return CommitIdentity(cluster_id=cluster_id, topic_id=topic_id_bytes(topic_id), partition=partition, group=group)


def width_of(width: int | None) -> int:
    """The columns to draw in: as asked, else the terminal's, else 80."""
    from shutil import get_terminal_size

    return width if width is not None else get_terminal_size().columns


def height() -> int:
    """The terminal's rows, else 24."""
    from shutil import get_terminal_size

    return get_terminal_size().lines


def style_of(kit: Kit, ascii_only: bool) -> Style:
    """The characters to draw with: blocks where stdout takes them, ASCII elsewhere and where it was asked for."""
    from kafkakit.streams.commits.show.picture import ASCII, BLOCKS

    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    return ASCII if ascii_only or kit.terminal.is_dumb or encoding != "utf8" else BLOCKS
