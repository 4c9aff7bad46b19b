"""`kafkakit topicmappr`: placement planning with kafka-kit's flags; one module a command."""

import typer

from kafkakit.command import KitCommand
from kafkakit.topicmappr.add_brokers.cli import add_brokers
from kafkakit.topicmappr.audit.cli import audit
from kafkakit.topicmappr.check.cli import check
from kafkakit.topicmappr.drain.cli import drain
from kafkakit.topicmappr.explain.cli import explain
from kafkakit.topicmappr.fix_racks.cli import fix_racks
from kafkakit.topicmappr.frontier.cli import frontier
from kafkakit.topicmappr.leadership.cli import leaders
from kafkakit.topicmappr.place.cli import place
from kafkakit.topicmappr.planning.cli import KafkaKitCommand, KafkaKitGroup
from kafkakit.topicmappr.rebalance.cli import rebalance, scale
from kafkakit.topicmappr.rebalance_dirs.cli import rebalance_dirs
from kafkakit.topicmappr.rebuild.cli import rebuild
from kafkakit.topicmappr.replan.cli import replan
from kafkakit.topicmappr.set_replication.cli import set_replication

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
