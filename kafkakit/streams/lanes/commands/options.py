"""The options that commands about rejected records share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kafkakit.cli.option_groups import option

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
Where = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="QUERY",
        help="Only records that match, such as 'reason = poison and age_s < 3600'. Attributes: reason, group, lane, "
        "key, tries, hops, age_s, error_class, error_text, header.NAME, topic, partition, offset, bytes, origin_topic, "
        "replayed (true or false), held (copy or reference).",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Where records are replayed to, and how fast."""

    to: str = option("", "--to", metavar="LANE", help="The lane; if not given, the one that each record came from.")
    rate: float = option(100.0, "--rate", metavar="N", min=0.001, max=1_000_000, help="At most N records a second.")
    limit: int | None = option(None, "--limit", metavar="N", min=1, help="At most N records in all.")

    @property
    def lane(self) -> str | None:
        """The lane that is named; None for each record's own."""
        return self.to or None
