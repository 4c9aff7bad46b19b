"""The table of top-level commands: name, module and one line of help, so that `--help` imports none of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A top-level command; `module` holds the typer app named `app`, which is a group unless `is_group` is False."""

    name: str
    module: str
    help: str
    is_group: bool = True
    app: str = "app"


ENTRIES: tuple[Entry, ...] = (
    Entry("topicmappr", "kafkakit.topicmappr.commands.app", "Plan where replicas go, with a proof and a rollback."),
    Entry(
        "reassign",
        "kafkakit.reassign.commands.app",
        "Carry out a plan: forecast, apply, watch, throttle, resume, undo.",
    ),
    Entry(
        "config",
        "kafkakit.rollout.commands.app",
        "Change configuration step by step: rehearsed, watched, taken back.",
    ),
    Entry("autothrottle", "kafkakit.autothrottle.commands.app", "Throttle the moves of any tool while they run."),
    Entry("broker", "kafkakit.broker.commands", "Drain, replace, decommission and rejoin brokers."),
    Entry(
        "metricsfetcher",
        "kafkakit.metricsfetcher.commands",
        "Collect partition sizes and free storage for topicmappr.",
    ),
    Entry("registry", "kafkakit.registry.commands.app", "Serve and tag topics and brokers over HTTP and gRPC."),
    Entry("streams", "kafkakit.streams.commands", "Inspect and edit committed offsets, measure lag in time."),
    Entry(
        "lint",
        "kafkakit.lint.commands",
        "Find mistakes in Kafka's configuration, in files and live.",
        is_group=False,
    ),
    Entry("audit", "kafkakit.audit.commands", "Audit whole fleets with Spark: submit jobs, follow runs."),
    Entry("snapshot", "kafkakit.snapshot.commands", "Read a cluster's state into a file.", is_group=False),
    Entry("fleet", "kafkakit.fleet.commands", "Collect snapshots of many clusters, or make some to try audits on."),
    Entry("sandbox", "kafkakit.sandbox.commands", "Run a real local Kafka cluster to try things on."),
    Entry("profile", "kafkakit.cli.profile", "List, show, choose and check cluster profiles."),
    Entry(
        "doctor", "kafkakit.doctor.commands", "Check versions, configuration, reachability and rights.", is_group=False
    ),
    Entry("version", "kafkakit.cli.version", "Print the versions of kafkakit and its parts.", is_group=False),
    Entry(
        "completion",
        "kafkakit.cli.version",
        "Print a script that completes commands and names in a shell.",
        is_group=False,
        app="completion_app",
    ),
)
