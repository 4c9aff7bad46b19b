"""Options that several sandbox commands share."""

from typing import Annotated

import typer

from kafkakit.sandbox.decide.spec import Mode, Secure

DEFAULT_NAME = "sandbox"
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The sandbox, and the profile that it writes.")]
BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="Broker id, such as 1001.")]
ModeOption = Annotated[Mode, typer.Option("--mode", help="Where the cluster's metadata is kept.")]
SecureOption = Annotated[
    Secure, typer.Option("--secure", help="What clients need: certificates (tls), passwords (scram), or both.")
]


def tool_names(incomplete: str) -> list[str]:
    """Kafka's tools whose names begin with what is typed."""
    from kafkakit.sandbox.decide.tools import TOOLS

    return [name for name in TOOLS if name.startswith(incomplete)]
