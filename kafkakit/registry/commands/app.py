"""`kafkakit registry`: topics, brokers and their tags over HTTP and gRPC."""

from kafkakit.cli.command_classes import new_group
from kafkakit.cli.kafka_kit_commands import KafkaKitCommand
from kafkakit.registry.commands.serve import serve

GROUP_HELP = "Serve and tag topics and brokers over HTTP and gRPC."
app = new_group(GROUP_HELP)
app.callback()(lambda: None)
app.command("serve", cls=KafkaKitCommand)(serve)
