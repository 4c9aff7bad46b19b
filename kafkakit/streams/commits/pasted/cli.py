"""`kafkakit streams commits decode`: what a pasted string says."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.command import kit_of


def decode(
    ctx: typer.Context,
    metadata: Annotated[str, typer.Argument(metavar="STRING", help="The commit's metadata; - reads it from stdin.")],
    offset: Annotated[int, typer.Option("--offset", help="The committed offset that the metadata came with.", min=0)],
) -> None:
    """Say what a commit's metadata means, whoever wrote it. Works without a cluster.

    Examples:

    \b
    kafkakit streams commits decode --offset 100 '~bEA9kU2IBB2QKAAECAgUCCLawy6eWM-gHBAIHAg'
    """
    from kafkakit.output import Result
    from kafkakit.streams.dialects.sniff import read_metadata

    kit = kit_of(ctx)
    reading = read_metadata(metadata, offset)
    kit.output.result(
        Result(
            command="streams commits decode", data={"offset": offset, "dialect": reading.dialect}, text=repr(reading)
        )
    )
