"""`kafkakit streams commits decode|encode|diff`: commits from strings and files, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.core.durations import epoch_ms
from kafkakit.streams.commits.commands import options
from kafkakit.streams.commits.commands.word_options import DEFAULT_FORM, FormWord
from kafkakit.streams.formats.dialects.registry import about_forms

if TYPE_CHECKING:
    from kafkakit.streams.commits.show.change_text import Change
    from kafkakit.streams.formats.commit import CommitState
    from kafkakit.streams.formats.dialects.facts import CommitFacts
    from kafkakit.streams.formats.identity import CommitIdentity

MAX_INPUT = 16 << 20
MAX_PASTED = 1 << 20

Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="CHARS", min=1, help="The brokers' offset.metadata.max.bytes; 4096 when not given.",
        show_default=False,
    ),
]  # fmt: skip


def decode(
    ctx: typer.Context,
    metadata: Annotated[str, typer.Argument(metavar="STRING", help="The commit's metadata; - reads it from stdin.")],
    offset: options.Offset,
    cluster_id: options.ClusterId = "",
    topic_id: options.TopicId = "",
    partition: options.PastedPartition = None,
    group: options.PastedGroup = "",
    limit: Limit = None,
    width: options.Width = None,
    ascii_only: options.Ascii = False,
) -> None:
    """Say what a commit's metadata means, whoever wrote it. Needs no cluster.

    Knows kafkakit's own metadata, parallel-consumer's and Kafka Streams'. Draws which offsets are done, pending,
    retrying, deferred, rejected and skipped; names the oldest pending one and its age, the size against the limit,
    what comes again on a restart, and what is dangerous. With all four parts of the identity it tells whether the
    payload belongs there. Whatever the string, the exit code is 0: a string that nobody writes is an answer too.

    Examples:

    \b
    kafkakit streams commits decode '~bEA9kU2IBB2QKAAECAgUCCLawy6eWM-gHBAIHAg' --offset 100
    kafkakit streams commits decode ZQAAAAEAAMNL --offset 5
    kafkakit streams commits decode - --offset 5 -o json < metadata.txt
    """
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.show.commit_text import commit_text
    from kafkakit.streams.commits.show.data import commit_data
    from kafkakit.streams.commits.show.table import COMMIT_COLUMNS, commit_row

    kit = kit_of(ctx)
    identity = options.identity_from(cluster_id, topic_id, partition, group)
    facts = _read(_pasted(metadata), offset, limit=limit, identity=identity)
    kit.output.result(
        Report(
            command="streams commits decode",
            data=commit_data(facts),
            text=commit_text(facts, width=options.width_of(width), style=options.style_of(kit, ascii_only)),
            columns=COMMIT_COLUMNS,
            rows=(commit_row(facts),),
        )
    )


def encode(
    ctx: typer.Context,
    document: Annotated[str, typer.Argument(metavar="FILE", help="What decode -o json printed; - reads stdin.")],
    form: Annotated[FormWord, typer.Option("--as", help=about_forms())] = DEFAULT_FORM,
    cluster_id: options.ClusterId = "",
    topic_id: options.TopicId = "",
    partition: options.PastedPartition = None,
    group: options.PastedGroup = "",
    limit: Annotated[int, typer.Option("--limit", metavar="CHARS", min=1, help="How many characters fit.")] = 4095,
) -> None:
    """Write a commit's metadata from JSON: the fields that decode -o json prints. Commits nothing.

    offset and state.base are required, state.done are [start, end] pairs with the end left out, all else may be
    absent. kafkakit's own metadata needs an identity, in the JSON or from the options, which go first. What does not
    fit the limit is made coarser, and stderr tells how many acknowledgements that forgets. Exits 4 where nothing fits.
    The limit is one below Kafka's by default: confluent-kafka adds a character.

    Examples:

    \b
    kafkakit streams commits decode "$OLD" --offset 100 -o json | kafkakit streams commits encode - --as pc
    kafkakit streams commits encode commit.json --as w --limit 4095
    """
    from dataclasses import asdict

    from kafkakit.report.report import Report
    from kafkakit.streams.commits.decide.document import read_commit
    from kafkakit.streams.commits.decide.offline_writing import encode_document
    from kafkakit.wiring import read_input

    kit = kit_of(ctx)
    source = "stdin" if document == "-" else document
    identity = options.identity_from(cluster_id, topic_id, partition, group)
    written = encode_document(
        read_commit(read_input(document, MAX_INPUT), source),
        form,
        identity=identity,
        limit_chars=limit,
        source=source,
    )
    if written.forgotten:
        kit.output.warn(f"{written.forgotten:,} acknowledgements did not fit and are forgotten: they come again")
    if written.left_out:
        kit.output.warn(f"{form} does not hold {', '.join(written.left_out)}: left out")
    columns = ("offset", "metadata", "chars", "limit_chars", "forgotten")
    kit.output.result(
        Report(
            command="streams commits encode",
            data=asdict(written),
            text=written.metadata,
            columns=columns,
            rows=(tuple(getattr(written, name) for name in columns),),
        )
    )


def diff(
    ctx: typer.Context,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="OFFSET:STRING, or a file of show -o json.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same, later.")],
) -> None:
    """Say what changed between two commits: what became done, pending again, rejected, or was tried again.

    Give two strings with their offsets before them, or two files that `show -o json` wrote. Files are compared
    partition by partition.

    Examples:

    \b
    kafkakit streams commits diff 5:ZQAAAAEAAMNL 5:ZQAAAAEAAMNM
    kafkakit --profile prod streams commits show payments -o json --output-file before.json
    kafkakit streams commits diff before.json after.json
    """
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.show.change_text import CHANGE_COLUMNS, change_data, change_rows, changes_text

    kit = kit_of(ctx)
    changes = _changes(before, after)
    kit.output.result(
        Report(
            command="streams commits diff",
            data={"changes": [change_data(change) for change in changes]},
            text=changes_text(changes),
            columns=CHANGE_COLUMNS,
            rows=tuple(row for change in changes for row in change_rows(change)),
        )
    )


def _changes(before: str, after: str) -> tuple[Change, ...]:
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.decide.document import read_shown
    from kafkakit.streams.commits.show.comparing import compare_shown, compare_states, split_pasted
    from kafkakit.wiring import read_input

    old, new = split_pasted(before), split_pasted(after)
    if (old is None) != (new is None):
        raise UsageError(
            "a string is compared with a string, a file with a file", hint="write strings as OFFSET:STRING"
        )
    if old is not None and new is not None:
        return compare_states(_state(before, *old), _state(after, *new))
    return compare_shown(
        read_shown(read_input(before, MAX_INPUT), before), read_shown(read_input(after, MAX_INPUT), after)
    )


def _state(given: str, offset: int, metadata: str) -> CommitState:
    """What a string says; one that says nothing that can be used is refused, since it would look all forgotten."""
    from kafkakit.core.errors import InputError
    from kafkakit.streams.formats.dialects.registry import read_metadata

    reading = read_metadata(metadata, offset)
    if reading.problem is not None:
        reason = f" ({reading.reason})" if reading.reason else ""
        raise InputError(
            f"{given:.60}",
            f"the {reading.dialect} payload cannot be used: {reading.problem.value}{reason}",
            hint=f"look at it with: kafkakit streams commits decode {metadata:.60} --offset {offset}",
        )
    return reading.state


def _pasted(metadata: str) -> str:
    """The string itself, or stdin without the line end that a shell adds; bytes that are no UTF-8 stand as they can."""
    if metadata != "-":
        return metadata
    from kafkakit.wiring import read_input

    return read_input("-", MAX_PASTED).decode("utf-8", "replace").rstrip("\r\n")


def _read(text: str, offset: int, *, limit: int | None, identity: CommitIdentity | None) -> CommitFacts:
    from kafkakit.streams.formats.dialects.facts import KAFKA_LIMIT, CommitFacts
    from kafkakit.streams.formats.dialects.registry import read_metadata
    from kafkakit.wiring import system_clock

    return CommitFacts(
        offset=offset,
        metadata=text,
        reading=read_metadata(text, offset, identity),
        at_ms=epoch_ms(system_clock().now()),
        group=identity.group if identity else None,
        identity=identity,
        limit_chars=limit or KAFKA_LIMIT,
        is_limit_known=limit is not None,
    )
