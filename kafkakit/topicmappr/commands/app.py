"""`kafkakit topicmappr`: placement planning with kafka-kit's flags; commands that plan alike share a module."""

import typer

from kafkakit.cli.command_classes import KafkaKitCommand, KafkaKitGroup
from kafkakit.cli.version import add_kafka_kit_commands
from kafkakit.topicmappr.commands.balancing import add_brokers, rebalance, scale
from kafkakit.topicmappr.commands.judging import audit, check, frontier
from kafkakit.topicmappr.commands.plain_requests import (
    drain,
    fix_racks,
    leaders,
    place,
    rebalance_dirs,
    repair,
    set_replication,
)
from kafkakit.topicmappr.commands.rebuild import explain, rebuild, replan

app = typer.Typer(
    cls=KafkaKitGroup,
    help="Plan where replicas go, with a proof and a rollback.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Plan where replicas go. Planning changes nothing on the cluster."""


app.command("rebuild", cls=KafkaKitCommand)(rebuild)
app.command("rebalance", cls=KafkaKitCommand)(rebalance)
app.command("scale", cls=KafkaKitCommand)(scale)
app.command("rebalance-dirs", cls=KafkaKitCommand)(rebalance_dirs)
app.command("drain", cls=KafkaKitCommand)(drain)
app.command("repair", cls=KafkaKitCommand)(repair)
app.command("add-brokers", cls=KafkaKitCommand)(add_brokers)
app.command("set-replication", cls=KafkaKitCommand)(set_replication)
app.command("fix-racks", cls=KafkaKitCommand)(fix_racks)
app.command("check", cls=KafkaKitCommand)(check)
app.command("place", cls=KafkaKitCommand)(place)
app.command("leaders", cls=KafkaKitCommand)(leaders)
app.command("explain", cls=KafkaKitCommand)(explain)
app.command("frontier", cls=KafkaKitCommand)(frontier)
app.command("audit", cls=KafkaKitCommand)(audit)
app.command("replan", cls=KafkaKitCommand)(replan)
add_kafka_kit_commands(app)
