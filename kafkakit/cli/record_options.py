"""The option of commands that print records."""

from typing import Annotated

import typer

MOST_BYTES = 64 << 20

MaxBytes = Annotated[
    int,
    typer.Option(
        "--max-bytes", metavar="N", min=0, max=MOST_BYTES, help="Cut keys, values and headers after this many bytes."
    ),
]
