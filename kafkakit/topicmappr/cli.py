"""`kafkakit topicmappr`: placement planning with kafka-kit's flags; one module a command."""

import typer

from kafkakit.command import KitCommand, KitGroup
from kafkakit.topicmappr.rebuild.cli import rebuild

app = typer.Typer(
    cls=KitGroup,
    help="Plan where replicas go: rebuild, with a proof and a rollback.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Plan where replicas go. Planning changes nothing on the cluster."""


app.command("rebuild", cls=KitCommand)(rebuild)
