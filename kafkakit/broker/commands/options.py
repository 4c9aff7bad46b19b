"""The options that commands of `kafkakit broker` share, and the words to run one of them again."""

from __future__ import annotations

from collections.abc import Collection
from shlex import quote
from typing import Annotated, Any

import typer

from kafkakit.topicmappr.decide.placement_choices import PlaceBy

Ids = Annotated[str, typer.Argument(metavar="ID[,ID...]", help="The brokers that are to be emptied; they may be dead.")]
Old = Annotated[str, typer.Argument(metavar="OLD", help="The broker that goes; it may be dead.")]
New = Annotated[str, typer.Option("--with", metavar="NEW", help="The broker that takes every replica, in its place.")]
To = Annotated[
    str,
    typer.Option(metavar="IDS", help="The brokers that may take the replicas; all other live ones if not given."),
]
Place = Annotated[
    PlaceBy | None,
    typer.Option(
        help="What comes out even: free bytes, or counts; by storage where all sizes are known, if not given."
    ),
]
MinRackIds = Annotated[
    int,
    typer.Option(
        min=0,
        help="Let racks repeat in a replica set once it spans this many; 0: every replica needs a rack of its own.",
    ),
]
Spread = Annotated[
    bool, typer.Option("--spread", help="Keep a partition's replicas per rack within one of each other instead.")
]
Replan = Annotated[
    bool,
    typer.Option(
        "--replan", help="Cancel what an interrupted operation has in flight, and plan the rest anew from there."
    ),
]
IgnoreWarns = Annotated[
    bool, typer.Option("--ignore-warns", help="Carry out what can be, although some replicas will stay.")
]
Comers = Annotated[str, typer.Argument(metavar="ID[,ID...]", help="The brokers that came back.")]
Restore = Annotated[
    str,
    typer.Option(
        metavar="RECORD",
        help="Take back the operation of this record, the file that `drain` named at its end; `last`: the last one on "
        "just these brokers.",
    ),
]
Wait = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to wait for the brokers, and then for their copies.")
]
LeadersAtOnce = Annotated[int, typer.Option(min=1, max=5000, help="Leaderships that pass at the same time.")]
LeadersPause = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to wait between such groups of leaderships; 0: not at all.")
]

_NOT_REPEATED = ("yes", "dry_run", "replan")


def given_words(ctx: typer.Context, leave_out: Collection[str] = ()) -> list[str]:
    """The options of this command that stood on its command line, quoted, for a line to paste; no arguments.

    `--yes` and what only means this once are left out, and so are the parameters named in `leave_out`.
    """
    words: list[str] = []
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if param.param_type_name != "option" or name in _NOT_REPEATED or name in leave_out:
            continue
        if source is None or source.name != "COMMANDLINE" or name not in ctx.params:
            continue
        words += _option_words(param, ctx.params[name])
    return words


def _option_words(param: Any, value: Any) -> list[str]:
    if getattr(param, "is_flag", False):
        flag = param.opts[0] if value else next(iter(param.secondary_opts), None)
        return [flag] if flag else []
    values = value if isinstance(value, (list, tuple)) else [value]
    return [word for v in values for word in (param.opts[0], quote(str(getattr(v, "value", v))))]
