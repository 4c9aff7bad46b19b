"""`kafkakit metricsfetcher`: the commands of the group."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.metricsfetcher.commands.fetch import fetch
from kafkakit.metricsfetcher.commands.show import show
from kafkakit.metricsfetcher.commands.unit import print_unit

GROUP_HELP = "Collect partition sizes and free storage for topicmappr."
app = new_group(GROUP_HELP)
app.command("fetch", cls=CliCommand)(fetch)
app.command("show", cls=CliCommand)(show)
app.command("unit", cls=CliCommand)(print_unit)
