"""`kafkakit streams commits decode|encode|diff`: commits from strings and files, without a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.durations import epoch_ms
from kafkakit.streams.commits.commands import options
from kafkakit.streams.commits.commands.word_options import DEFAULT_FORM, FormWord
from kafkakit.streams.model.dialects.registry import about_forms

MAX_INPUT = 16 << 20
MAX_STRING = 1 << 20


@with_option_groups
def decode(
    ctx: typer.Context,
    *,
    metadata: Annotated[str, typer.Argument(metavar="STRING", help="The commit's metadata; - reads it from stdin.")],
    offset: options.Offset,
    committed_for: options.IdentityOptions,
    limit: options.MetadataLimit = None,
    drawing: options.DrawingOptions,
) -> None:
    """Decode the metadata of a commit by any known client. Needs no cluster.

    Reads the metadata of kafkakit, parallel-consumer and Kafka Streams. Draws which offsets are done, pending,
    retrying, deferred, rejected and skipped; prints the oldest pending one and its age, the size and its limit,
    what is delivered again after a restart, and hazards. With all four parts of the identity it checks whether the
    payload belongs there. The exit code is 0 for every string, also for metadata of an unknown client.

    Examples:

    \b
    kafkakit streams commits decode '~bEA9kU2IBB2QKAAECAgUCCLawy6eWM-gHBAIHAg' --offset 100
    kafkakit streams commits decode ZQAAAAEAAMNL --offset 5
    kafkakit streams commits decode - --offset 5 -o json < metadata.txt
    """
    from kafkakit.streams.commits.decide.offline_reading import facts_of, text_of_stdin
    from kafkakit.streams.commits.show.commit_text import commit_report
    from kafkakit.wiring import read_input, system_clock

    cli = cli_context(ctx)
    text = metadata if metadata != "-" else text_of_stdin(read_input("-", MAX_STRING))
    at_ms = epoch_ms(system_clock().now())
    facts = facts_of(text, offset, limit_chars=limit, identity=committed_for.identity, at_ms=at_ms)
    session.finish(cli, commit_report(facts, columns=drawing.columns, style=drawing.style(cli)))


@with_option_groups
def encode(
    ctx: typer.Context,
    *,
    document: Annotated[str, typer.Argument(metavar="FILE", help="What decode -o json printed; - reads stdin.")],
    form: Annotated[FormWord, typer.Option("--as", help=about_forms())] = DEFAULT_FORM,
    committed_for: options.IdentityOptions,
    limit: Annotated[
        int, typer.Option("--limit", metavar="CHARS", min=1, help="The most characters that the metadata may have.")
    ] = 4095,
) -> None:
    """Write a commit's metadata from JSON: the fields that decode -o json prints. Commits nothing.

    offset and state.base are required, state.done are [start, end] pairs, the end excluded; all other fields are
    optional. kafkakit's own metadata needs an identity, in the JSON or from the options, which take precedence.
    What does not fit the limit is coarsened, and stderr reports how many acknowledgements are lost. Exits 4 when
    nothing fits. The default limit is one below Kafka's, since confluent-kafka adds a character.

    Examples:

    \b
    kafkakit streams commits decode "$OLD" --offset 100 -o json | kafkakit streams commits encode - --as pc
    kafkakit streams commits encode commit.json --as w --limit 4095
    """
    from kafkakit.streams.commits.decide.document import read_commit
    from kafkakit.streams.commits.decide.offline_writing import encode_document
    from kafkakit.streams.commits.show.commit_text import encoded_report
    from kafkakit.wiring import read_input

    cli = cli_context(ctx)
    source = "stdin" if document == "-" else document
    written = encode_document(
        read_commit(read_input(document, MAX_INPUT), source),
        form,
        identity=committed_for.identity,
        limit_chars=limit,
        source=source,
    )
    if written.forgotten:
        cli.output.warn(f"{written.forgotten:,} acknowledgements did not fit and are forgotten: they come again")
    if written.left_out:
        cli.output.warn(f"{form} does not hold {', '.join(written.left_out)}: left out")
    session.finish(cli, encoded_report(written))


def diff(
    ctx: typer.Context,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="OFFSET:STRING, or a file of show -o json.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The later commit, in the same form.")],
) -> None:
    """Show what changed between two commits: what became done, pending again, rejected, or was tried again.

    Give two strings with their offsets before them, or two files that `show -o json` wrote. Files are compared
    partition by partition.

    Examples:

    \b
    kafkakit streams commits diff 5:ZQAAAAEAAMNL 5:ZQAAAAEAAMNM
    kafkakit --profile prod streams commits show payments -o json --output-file before.json
    kafkakit streams commits diff before.json after.json
    """
    from kafkakit.streams.commits.decide.document import read_shown
    from kafkakit.streams.commits.show.change_text import changes_report
    from kafkakit.streams.commits.show.comparing import compare_shown, compare_strings
    from kafkakit.wiring import read_input

    changes = compare_strings(before, after)
    if changes is None:
        changes = compare_shown(
            read_shown(read_input(before, MAX_INPUT), before), read_shown(read_input(after, MAX_INPUT), after)
        )
    session.finish(cli_context(ctx), changes_report(changes))
