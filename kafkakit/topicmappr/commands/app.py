"""`kafkakit topicmappr`: placement planning with kafka-kit's flags; one module a command."""

import typer

from kafkakit.cli.command_classes import KitCommand
from kafkakit.topicmappr.commands.add_brokers import add_brokers
from kafkakit.topicmappr.commands.audit import audit
from kafkakit.topicmappr.commands.check import check
from kafkakit.topicmappr.commands.drain import drain
from kafkakit.topicmappr.commands.explain import explain
from kafkakit.topicmappr.commands.fix_racks import fix_racks
from kafkakit.topicmappr.commands.frontier import frontier
from kafkakit.topicmappr.commands.leaders import leaders
from kafkakit.topicmappr.commands.place import place
from kafkakit.topicmappr.commands.planning import KafkaKitCommand, KafkaKitGroup
from kafkakit.topicmappr.commands.rebalance import rebalance, scale
from kafkakit.topicmappr.commands.rebalance_dirs import rebalance_dirs
from kafkakit.topicmappr.commands.rebuild import rebuild
from kafkakit.topicmappr.commands.replan import replan
from kafkakit.topicmappr.commands.set_replication import set_replication

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
app.command("rebalance-dirs", cls=KitCommand)(rebalance_dirs)
app.command("drain", cls=KitCommand)(drain)
app.command("add-brokers", cls=KitCommand)(add_brokers)
app.command("set-replication", cls=KitCommand)(set_replication)
app.command("fix-racks", cls=KitCommand)(fix_racks)
app.command("check", cls=KitCommand)(check)
app.command("place", cls=KitCommand)(place)
app.command("leaders", cls=KitCommand)(leaders)
app.command("explain", cls=KitCommand)(explain)
app.command("frontier", cls=KitCommand)(frontier)
app.command("audit", cls=KitCommand)(audit)
app.command("replan", cls=KitCommand)(replan)
