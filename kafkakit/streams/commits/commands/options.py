"""The options that commands of `kafkakit streams commits` share, and the values that they stand for.

Names of dialects and of metadata forms on the command line are taken from the dialects themselves.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from kafkakit.cli.command_classes import CliContext
from kafkakit.cli.completion import GROUP_NAME, TOPIC_NAME
from kafkakit.cli.run_options import Consent
from kafkakit.core.options import Completion, not_typed, option, typed_as
from kafkakit.streams.commits.decide.editing.edit import OUTSIDE_LOG_HELP, EditAllowances, parse_partitions
from kafkakit.streams.commits.decide.group_look import CommitScope
from kafkakit.streams.model.dialects.registry import FORMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkakit.core.model import TopicPartition
    from kafkakit.streams.commits.act.reading import PartitionScope
    from kafkakit.streams.commits.decide.editing.edit import EditOpening, EditPlan, FileTarget
    from kafkakit.streams.commits.report.commits import DrawingStyle
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
MetadataGroup = Annotated[
    str | None, typer.Option("--group", **GROUP_NAME, help="The group that committed it.", show_default=False)
]
Width = Annotated[
    int | None,
    typer.Option(
        "--width", metavar="COLUMNS", min=20, help="Draw this wide; the terminal's width when not given.",
        show_default=False,
    ),
]  # fmt: skip
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII only; the default if the output is not UTF-8.")]

Group = Annotated[str, typer.Argument(**GROUP_NAME, help="The group.", show_default=False)]
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
    group: MetadataGroup = None

    @property
    def identity(self) -> CommitIdentity | None:
        """The identity that all four options give, None when none was given; `UsageError` for some of them."""
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.model.commit import CommitIdentity, topic_id_bytes

        given = (bool(self.cluster_id), bool(self.topic_id), self.partition is not None, self.group is not None)
        if not any(given):
            return None
        if self.partition is None or self.group is None or not all(given):
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


OneCommitScope = Annotated[
    CommitScope,
    typed_as(
        topic=option(
            "",
            "--topic",
            metavar="TOPIC",
            completion=Completion.TOPICS,
            help="The topic; may be left out if there is one.",
        )
    ),
]


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
        from kafkakit.streams.commits.report.commits import ASCII, BLOCKS

        encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
        return ASCII if self.ascii_only or cli.terminal.is_dumb or encoding != "utf8" else BLOCKS


if TYPE_CHECKING:
    FormWord: TypeAlias = str
else:
    FormWord = StrEnum("FormWord", {word: word for word in FORMS})

EditedGroup = Annotated[
    str, typer.Argument(**GROUP_NAME, help="The group; it must have no members.", show_default=False)
]
DeletedGroup = Annotated[str, typer.Argument(**GROUP_NAME, help="The group.", show_default=False)]
EditedTopic = Annotated[str, typer.Option("--topic", **TOPIC_NAME, help="The topic.", show_default=False)]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="All topics that the group has commits for.")]
Partitions = Annotated[
    str, typer.Option("--partition", metavar="N[,N-N...]", help="Only these partitions.", show_default=False)
]
Offsets = Annotated[
    str,
    typer.Option("--offsets", metavar="N[,N-N...]", help="Offsets and ranges, both ends included: 102,200-210."),
]
OutsideLog = Annotated[bool, typer.Option("--allow-outside-log", help=OUTSIDE_LOG_HELP)]
Reason = Annotated[
    str, typer.Option("--reason", metavar="WORDS", help="The reason, recorded in the journal.", show_default=False)
]
JournalName = Annotated[
    str, typer.Argument(metavar="JOURNAL", help="The edit's journal, or `last`.", show_default=False)
]
OfGroup = Annotated[
    str | None,
    typer.Option("--group", **GROUP_NAME, help="With `last`: the last edit of this group.", show_default=False),
]
EvenIfChanged = Annotated[
    bool, typer.Option("--even-if-changed", help="Restore even if another process has committed since.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChoice:
    """Partitions of one topic."""

    topic: EditedTopic = ""
    partition: Partitions = ""

    @property
    def one_partition(self) -> PartitionScope:
        """The one partition that offsets belong to, or the only one that the group committed for.

        Raises `UsageError` when several are named.
        """
        from kafkakit.core.errors import UsageError

        scope = _scope(self.topic, self.partition, all_topics=not self.topic)
        if len(scope.partitions) > 1:
            raise UsageError("offsets belong to one partition", hint="name it: --topic NAME --partition N")
        return replace(scope, single=True)

    def scope_or_all(self, *, everything: bool) -> PartitionScope:
        """The topic's partitions, or with `everything` those of all topics."""
        scope = _scope(self.topic, self.partition, all_topics=everything, all_flag="--all")
        return replace(scope, deletes=True, with_group=everything)


def _scope(
    topic: str, partition: str, *, all_topics: bool, uncommitted: bool = False, all_flag: str = "--all-topics"
) -> PartitionScope:
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.act.reading import PartitionScope

    if bool(topic) == all_topics:
        raise UsageError(f"give --topic NAME or {all_flag}")
    if partition and not topic:
        raise UsageError("--partition goes with --topic")
    return PartitionScope(topic=topic, partitions=parse_partitions(partition), uncommitted=uncommitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice(PartitionChoice):
    """Partitions of one topic, or everything that the group committed for."""

    all_topics: AllTopics = False

    def scope(self, *, uncommitted: bool = False) -> PartitionScope:
        """The partitions that are meant; `UsageError` unless a topic is named, or all are."""
        return _scope(self.topic, self.partition, all_topics=self.all_topics, uncommitted=uncommitted)

    @property
    def topic_of_rows(self) -> str:
        """The topic that all rows of a file must have, "" for any; `UsageError` for a choice that the rows make."""
        from kafkakit.core.errors import UsageError

        if self.partition or self.all_topics:
            raise UsageError("the rows of --from-csv name the partitions: leave out --partition and --all-topics")
        return self.topic


TranslateAllowances = Annotated[
    EditAllowances, typed_as(dialect=not_typed(""), outside_log=not_typed(False))  # what a translation does not have
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditConsent(Consent):
    """Whether a plan is carried out, whether that is confirmed, and which plan it must be."""

    apply: bool = option(False, "--apply", hidden=True, help="Accepted for earlier versions; has no effect.")
    expect: str = option(
        "", "--expect", metavar="PLAN", help="Refuse unless the plan has this fingerprint (printed with the plan)."
    )

    def check_expected(self, plan: EditPlan) -> None:
        """Refuse a plan that is not the one that was shown."""
        from kafkakit.core.errors import RefusedError

        if self.expect and self.expect != plan.fingerprint:
            raise RefusedError(
                f"the plan is {plan.fingerprint} now, not {self.expect}: the group's commits or the logs changed",
                hint="look at the plan again, with --dry-run",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEditOptions:
    """An edit of records that are named by their offsets."""

    group: EditedGroup
    offsets: Offsets
    choice: PartitionChoice
    allowances: EditAllowances
    reason: Reason = ""
    consent: EditConsent


def opening_of(plan: EditPlan, reason: str) -> EditOpening:
    """The first line of the plan's journal: whose edit it is, and why."""
    from kafkakit.adapters.host import this_holder
    from kafkakit.streams.commits.decide.editing.edit import opening_for

    holder = this_holder(f"streams commits {plan.verb}")
    return opening_for(plan, who=f"{holder.user}@{holder.host}", reason=reason)


def named_scope(targets: Mapping[TopicPartition, FileTarget]) -> PartitionScope:
    """The partitions that a file names."""
    from kafkakit.streams.commits.act.reading import PartitionScope

    return PartitionScope(named={key: target.where for key, target in targets.items()})


def dialect_name(word: str) -> str:
    """The name of the dialect that the command line calls by this word."""
    from kafkakit.streams.model.dialects.registry import dialect_of_word

    return dialect_of_word(word).name


def local_time(moment: datetime) -> datetime:
    """The moment with the zone of this machine; one without a zone is taken as local."""
    return moment.astimezone()


DEFAULT_FORM = FormWord(FORMS[0])
