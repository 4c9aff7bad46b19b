"""The options that commands about commits share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import GROUP_NAME, TOPIC_NAME
from kafkakit.cli.command_classes import CliContext
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.streams.commits.decide.group_look import CommitScope
    from kafkakit.streams.commits.show.drawing import DrawingStyle
    from kafkakit.streams.model.commit import CommitIdentity

Offset = Annotated[
    int, typer.Option("--offset", metavar="N", min=0, help="The committed offset that the metadata belongs to.")
]
ClusterId = Annotated[str, typer.Option("--cluster-id", metavar="ID", help="The cluster that it was committed to.")]
TopicId = Annotated[
    str, typer.Option("--topic-id", metavar="ID", help="The topic's id: a UUID, or the 22 characters Kafka prints.")
]
MetadataPartition = Annotated[
    int | None, typer.Option("--partition", metavar="N", min=0, help="The partition.", show_default=False)
]
MetadataGroup = Annotated[str, typer.Option("--group", **GROUP_NAME, help="The group that committed it.")]
Width = Annotated[
    int | None,
    typer.Option(
        "--width", metavar="COLUMNS", min=20, help="Draw this wide; the terminal's width when not given.",
        show_default=False,
    ),
]  # fmt: skip
Ascii = Annotated[
    bool, typer.Option("--ascii", help="Draw with ASCII only; the default where the output is not UTF-8.")
]

Group = Annotated[str, typer.Argument(**GROUP_NAME, help="The group.", show_default=False)]
Topic = Annotated[str, typer.Option("--topic", **TOPIC_NAME, help="Only this topic.")]
Partition = Annotated[
    int | None, typer.Option("--partition", metavar="N", min=0, help="Only this partition.", show_default=False)
]
Groups = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP...", help="The groups; or --all.", show_default=False)
]
MetadataLimit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="CHARS", min=1, help="The brokers' offset.metadata.max.bytes; 4096 when not given.",
        show_default=False,
    ),
]  # fmt: skip
Also = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="PROFILE",
        help="Also search this cluster for the owner of a payload that belongs to another commit. Repeatable.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityOptions:
    """What metadata from a string was committed for."""

    cluster_id: ClusterId = ""
    topic_id: TopicId = ""
    partition: MetadataPartition = None
    group: MetadataGroup = ""

    @property
    def identity(self) -> CommitIdentity | None:
        """The identity that all four options give, None when none was given; `UsageError` for some of them."""
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.model.commit import CommitIdentity, topic_id_bytes

        given = (bool(self.cluster_id), bool(self.topic_id), self.partition is not None, bool(self.group))
        if not any(given):
            return None
        if self.partition is None or not all(given):
            raise UsageError(
                "an identity has four parts",
                hint="give --cluster-id, --topic-id, --partition and --group, or none of them",
            )
        return CommitIdentity(
            cluster_id=self.cluster_id,
            topic_id=topic_id_bytes(self.topic_id),
            partition=self.partition,
            group=self.group,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookScope:
    """Which commits of a group are looked at."""

    topic: Topic = ""
    partition: Partition = None

    @property
    def scope(self) -> CommitScope:
        """The options as a value of the inspector."""
        from kafkakit.streams.commits.decide.group_look import CommitScope

        return CommitScope(topic=self.topic, partition=self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCommitScope(LookScope):
    """Which commit of a group is looked at."""

    topic: str = option("", "--topic", **TOPIC_NAME, help="The topic; may be left out if there is one.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingOptions:
    """How done offsets are drawn."""

    width: Width = None
    ascii_only: Ascii = False

    @property
    def columns(self) -> int:
        """The columns to draw in: as asked, else the terminal's, else 80."""
        return self.width if self.width is not None else get_terminal_size().columns

    @property
    def rows(self) -> int:
        """The terminal's rows, else 24."""
        return get_terminal_size().lines

    def style(self, cli: CliContext) -> DrawingStyle:
        """The characters to draw with: blocks where stdout takes them, ASCII elsewhere and where it was asked for."""
        from kafkakit.streams.commits.show.drawing import ASCII, BLOCKS

        encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
        return ASCII if self.ascii_only or cli.terminal.is_dumb or encoding != "utf8" else BLOCKS
