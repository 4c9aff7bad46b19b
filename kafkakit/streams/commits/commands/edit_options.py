"""The options that commands which edit commits share."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.streams.commits.commands.word_options import DialectWord

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group; it must have no members.", show_default=False)]
Topic = Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.", show_default=False)]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="Everything that the group committed for.")]
Partitions = Annotated[
    str, typer.Option("--partition", metavar="N[,N-N...]", help="Only these partitions.", show_default=False)
]
Offsets = Annotated[
    str,
    typer.Option("--offsets", metavar="N[,N-N...]", help="Offsets and ranges, both ends included: 102,200-210."),
]
As = Annotated[
    DialectWord | None,
    typer.Option(
        "--dialect",
        help="Write this kind of metadata; if not given, the kind that the group uses. kkm1 and pc hold many offsets, "
        "if the application reads them.",
        show_default=False,
    ),
]
Adopt = Annotated[
    bool, typer.Option("--adopt", help="Write over a commit of a newer format; its acknowledgements are forgotten.")
]
OutsideLog = Annotated[bool, typer.Option("--allow-outside-log", help="Allow offsets that the log does not hold.")]
Coarsen = Annotated[
    bool,
    typer.Option(
        "--allow-coarsening", help="Let acknowledgements be forgotten, so that the metadata fits the brokers' limit."
    ),
]
Reason = Annotated[str, typer.Option("--reason", metavar="WORDS", help="Why; kept in the journal.", show_default=False)]
Apply = Annotated[bool, typer.Option("--apply", help="Carry the plan out, after asking. Without it nothing changes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed with --apply where nobody can be asked.")]
Expect = Annotated[
    str,
    typer.Option("--expect", metavar="PLAN", help="Refuse if the plan is not this one (printed with it)."),
]
JournalName = Annotated[
    str, typer.Argument(metavar="JOURNAL", help="The edit's journal, or `last`.", show_default=False)
]
OfGroup = Annotated[str, typer.Option("--group", metavar="NAME", help="With `last`: the last edit of this group.")]
EvenIfChanged = Annotated[
    bool, typer.Option("--even-if-changed", help="Restore also where somebody else has committed since.")
]
