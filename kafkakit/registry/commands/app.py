"""`kafkakit registry`: topics, brokers and their tags, served over HTTP and gRPC or used directly."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.cli.kafka_kit_commands import KafkaKitCommand
from kafkakit.registry.commands.history import history
from kafkakit.registry.commands.reading import brokers, mappings, topics, translate_offsets, unmapped
from kafkakit.registry.commands.serve import serve
from kafkakit.registry.commands.tagging import apply, import_labels, tag, untag
from kafkakit.registry.commands.topics import create, delete
from kafkakit.registry.commands.upkeep import cleanup, migrate

GROUP_HELP = "Serve and tag topics and brokers over HTTP and gRPC."
app = new_group(GROUP_HELP)
app.callback()(lambda: None)
app.command("serve", cls=KafkaKitCommand)(serve)
app.command("topics", cls=CliCommand)(topics)
app.command("brokers", cls=CliCommand)(brokers)
app.command("tag", cls=CliCommand)(tag)
app.command("untag", cls=CliCommand)(untag)
app.command("apply", cls=CliCommand)(apply)
app.command("import-labels", cls=CliCommand)(import_labels)
app.command("create", cls=CliCommand)(create)
app.command("delete", cls=CliCommand)(delete)
app.command("mappings", cls=CliCommand)(mappings)
app.command("unmapped", cls=CliCommand)(unmapped)
app.command("translate-offsets", cls=CliCommand)(translate_offsets)
app.command("cleanup", cls=KafkaKitCommand)(cleanup)
app.command("migrate", cls=CliCommand)(migrate)
app.command("history", cls=CliCommand)(history)
