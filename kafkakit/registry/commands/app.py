"""`kafkakit registry`: topics, brokers and their tags, served over HTTP and gRPC or used directly.

`topics`, `brokers`, `mappings`, `list_unmapped`, `translate-offsets` and `history` read; `tag`, `untag`, `apply` and
`import-labels` change tags; `create` and `delete` change topics; `cleanup` and `migrate` keep the store of tags in
order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, KafkaKitCommand, cli_context, kafka_kit_group
from kafkakit.cli.completion import BROKER_CHOICE, BROKER_ID, GROUP_NAME, TOPIC_CHOICE, TOPIC_NAME
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.version import add_kafka_kit_commands
from kafkakit.core.errors import UsageError
from kafkakit.core.model import cluster_tags_root
from kafkakit.core.options import option
from kafkakit.core.text import shell_command
from kafkakit.registry.commands.client_options import (
    NewTopicOptions,
    ObjectChoice,
    RegistryPlace,
    SyncPlace,
    TagKeys,
    TagTexts,
    TopicName,
)
from kafkakit.registry.commands.serve import TagPlace, serve
from kafkakit.registry.decide.tags import CleanupRules

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.registry.act.tag_store import TagStore
    from kafkakit.registry.act.upkeep import Migration
    from kafkakit.report.report import Report


@with_option_groups
def topics(
    ctx: typer.Context,
    registry: RegistryPlace,
    names: Annotated[
        str | None,
        typer.Argument(
            **TOPIC_CHOICE,
            help="Topics, such as 'where team = pay'; all if not given.",
            show_default=False,
        ),
    ] = None,
    with_replicas: Annotated[bool, typer.Option("--with-replicas", help="Include the replica lists.")] = False,
) -> int:
    """List topics with their tags.

    Examples:

    \b
    kafkakit --profile prod registry topics 'where team = pay and replication < 3'
    kafkakit registry topics --server http://localhost:8080 -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.commands.client_options import listed_topics
    from kafkakit.registry.report import topics_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = listed_topics(client, names, with_replicas=with_replicas)
    return finish(cli, topics_report(found))


@with_option_groups
def brokers(
    ctx: typer.Context,
    registry: RegistryPlace,
    ids: Annotated[
        str | None,
        typer.Argument(
            **BROKER_CHOICE,
            help="Brokers, such as 'where rack = a'; all if not given.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """List live brokers with their tags.

    Examples:

    \b
    kafkakit --profile prod registry brokers 'where tier = hot'
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.commands.client_options import listed_brokers
    from kafkakit.registry.report import brokers_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = listed_brokers(client, ids)
    return finish(cli, brokers_report(found))


Broker = Annotated[
    int | None,
    typer.Option("--broker", min=0, **BROKER_ID, help="The topics on this broker."),
]


@with_option_groups
def mappings(
    ctx: typer.Context,
    registry: RegistryPlace,
    topic: Annotated[
        str | None,
        typer.Option("--topic", **TOPIC_NAME, help="The brokers of this topic."),
    ] = None,
    broker: Broker = None,
) -> int:
    """List the brokers of a topic, or the topics of a broker.

    Examples:

    \b
    kafkakit --profile prod registry mappings --broker 1003
    """
    from kafkakit.cli.session import finish
    from kafkakit.core.rpc import RpcError
    from kafkakit.registry.report import names_report

    cli = cli_context(ctx)
    if (topic is None) == (broker is None):
        raise UsageError("give either --topic or --broker")
    with registry.open(cli) as client:
        try:
            if topic is not None:
                return finish(cli, names_report("registry mappings", "brokers", client.brokers_of_topic(topic)))
            return finish(cli, names_report("registry mappings", "topics", client.topics_of_broker(broker or 0)))
        except RpcError as error:
            if not error.message.endswith("does not exist"):  # kafka-kit's text, which names nothing
                raise
            kind, name = ("broker", broker) if topic is None else ("topic", topic)
            raise UsageError(
                f"{kind} {name} does not exist", hint=f"list them with: {shell_command(f'registry {kind}s')}"
            ) from None


@with_option_groups
def list_unmapped(
    ctx: typer.Context,
    registry: RegistryPlace,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", **TOPIC_NAME, help="A topic to ignore. Repeatable."),
    ] = None,
) -> int:
    """List the live brokers that hold no replica.

    Examples:

    \b
    kafkakit --profile prod registry unmapped --exclude __consumer_offsets
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.report import names_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = client.unmapped_brokers(exclude or ())
    return finish(cli, names_report("registry unmapped", "brokers", found))


@with_option_groups
def translate_offsets(
    ctx: typer.Context,
    registry: RegistryPlace,
    syncs: SyncPlace,
    group: Annotated[str, typer.Argument(**GROUP_NAME, help="The consumer group.", show_default=False)],
    alias: Annotated[
        str, typer.Option("--alias", metavar="NAME", help="MirrorMaker 2's alias of the upstream cluster.")
    ] = "source",
) -> int:
    """Translate a group's offsets to this cluster.

    MirrorMaker 2's checkpoints of the upstream cluster say which offsets these are.

    MirrorMaker translates down to the last offset sync. local_end_offset is how far up the true offset may be, and
    may_repeat how many records are read twice at most; both need its offset syncs on this cluster, or --upstream.

    Examples:

    \b
    kafkakit --profile dr registry translate-offsets billing --alias prod
    kafkakit --profile dr registry translate-offsets billing --alias prod --upstream prod --local-alias dr -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.report import offsets_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = client.offset_intervals(group, alias, syncs.read(cli))
    return finish(cli, offsets_report(found))


@with_option_groups
def tag(ctx: typer.Context, tags: TagTexts, objects: ObjectChoice, registry: RegistryPlace, consent: Consent) -> int:
    """Add tags to topics and brokers; their other tags stay.

    If objects are chosen by a query, the changes are shown and confirmed first. A broker that is down can be named by
    its id if it has replicas or tags; queries match live brokers.

    Examples:

    \b
    kafkakit --profile prod registry tag --brokers 1001,1002 tier:hot
    kafkakit --profile prod registry tag --topics 'where name like "pay-*"' team:pay --dry-run
    """
    from kafkakit.registry.commands.client_options import end_changes

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        plan = objects.setting(client, tags)
        return end_changes(cli, client, "registry tag", plan, consent, asks=not objects.is_exact)


@with_option_groups
def untag(ctx: typer.Context, keys: TagKeys, objects: ObjectChoice, registry: RegistryPlace, consent: Consent) -> int:
    """Delete tags of topics and brokers by key.

    If objects are chosen by a query, the changes are shown and confirmed first.

    Examples:

    \b
    kafkakit --profile prod registry untag --brokers 'where tier = hot' tier
    """
    from kafkakit.registry.commands.client_options import end_changes

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        plan = objects.deleting(client, keys)
        return end_changes(cli, client, "registry untag", plan, consent, asks=not objects.is_exact)


Prune = Annotated[
    list[str] | None,
    typer.Option(
        "--prune",
        metavar="PREFIX",
        help="Also delete tags whose key begins with this and that no rule asks for. Repeatable.",
    ),
]


@with_option_groups
def apply(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML file with the wanted tags; `-` is stdin.", show_default=False)
    ],
    registry: RegistryPlace,
    consent: Consent,
    prune: Prune = None,
) -> int:
    """Give topics and brokers the tags of a file.

    The file lists rules under `topics` and `brokers`; each has `tags` and either `names` or a query in `where`. A tag
    that no rule names stays. An object whose tags another process changes meanwhile is left as it is and reported.

    Examples:

    \b
    kafkakit --profile prod registry apply tags.yaml --dry-run
    kafkakit --profile prod registry apply tags.yaml --prune k8s. --yes
    """
    from kafkakit.registry.commands.client_options import desired_changes, end_changes, read_prefixes
    from kafkakit.registry.decide.desired_tags import MAX_FILE_BYTES, read_desired
    from kafkakit.wiring import read_input

    cli = cli_context(ctx)
    prefixes = read_prefixes(prune)
    desired = read_desired(read_input(file, MAX_FILE_BYTES), str(file))
    with registry.open(cli) as client:
        plan = desired_changes(client, desired, prefixes)
        return end_changes(cli, client, "registry apply", plan, consent, asks=True)


@with_option_groups
def import_labels(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Output of kubectl get pods,nodes -o json or -o yaml; `-` is stdin.",
            show_default=False,
        ),
    ],
    registry: RegistryPlace,
    consent: Consent,
    label_map: Annotated[
        list[str],
        typer.Option("--map", metavar="LABEL=TAG", help="Take this label as this tag. Repeatable.", show_default=False),
    ],
    id_label: Annotated[
        str | None,
        typer.Option(
            "--id-label", metavar="LABEL", help="The label with the broker's id; without it a pod's ordinal counts."
        ),
    ] = None,
    first_id: Annotated[
        int, typer.Option("--first-id", min=0, metavar="ID", help="The broker of the pod with ordinal 0.")
    ] = 0,
    apply_them: Annotated[
        bool, typer.Option("--apply", help="Set the tags, as registry apply does, and print no file.")
    ] = False,
    prune: Prune = None,
) -> int:
    """Turn labels of Kubernetes pods into broker tags.

    Labels of their nodes count as well.

    Prints a file for registry apply, or applies it. A pod's labels override its node's labels.

    Examples:

    \b
    kubectl get pods -l app=kafka -o json > pods.json
    kafkakit registry import-labels pods.json --map topology.kubernetes.io/zone=zone > tags.yaml
    """
    from kafkakit.cli.session import finish
    from kafkakit.kubernetes.objects import MAX_OBJECTS_BYTES, read_objects
    from kafkakit.registry.commands.client_options import desired_changes, end_changes, read_prefixes
    from kafkakit.registry.decide import desired_tags as labels
    from kafkakit.registry.report import desired_report
    from kafkakit.wiring import read_input

    cli, command = cli_context(ctx), "registry import-labels"
    request = labels.LabelImport(tag_of=labels.parse_label_map(label_map), id_label=id_label, first_id=first_id)
    objects = read_objects(read_input(file, MAX_OBJECTS_BYTES), str(file))
    desired = labels.import_labels(objects, request)
    if not apply_them:
        if prune or consent.yes or consent.dry_run:
            raise UsageError("--prune, --yes and --dry-run need --apply")
        return finish(cli, desired_report(command, desired))
    with registry.open(cli) as client:
        plan = desired_changes(client, desired, read_prefixes(prune))
        return end_changes(cli, client, command, plan, consent, asks=True)


@with_option_groups
def create(
    ctx: typer.Context, name: TopicName, topic: NewTopicOptions, registry: RegistryPlace, consent: Consent
) -> int:
    """Create a topic with tags, spread over racks.

    Examples:

    \b
    kafkakit --profile prod registry create orders --partitions 12 --tag team:pay --target-tag tier:hot
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.report import created_report

    cli = cli_context(ctx)
    request = topic.request(name)
    with registry.open(cli, read_only=consent.dry_run) as client:
        notes = topic.check(client, request)
        if not consent.dry_run:
            client.create_topic(request)
    return finish(cli, created_report(request, is_done=not consent.dry_run, notes=notes))


@with_option_groups
def delete(ctx: typer.Context, name: TopicName, registry: RegistryPlace, consent: Consent) -> int:
    """Delete a topic with all its records.

    Its tags go with the next cleanup.

    Examples:

    \b
    kafkakit --profile prod registry delete orders-old
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.commands.client_options import existing_topic
    from kafkakit.registry.report import deleted_report

    cli = cli_context(ctx)
    with registry.open(cli, read_only=consent.dry_run) as client:
        found = existing_topic(client, name)
        question = f"Delete topic {name} with its {found.partitions} partitions?"
        is_confirmed = not consent.dry_run and consent.confirm(cli, question)
        if is_confirmed:
            client.delete_topic(name)
    return finish(cli, deleted_report(found, is_done=is_confirmed, is_dry=consent.dry_run))


@with_option_groups
def history(
    ctx: typer.Context,
    registry: RegistryPlace,
    topic: Annotated[
        str | None,
        typer.Option("--topic", **TOPIC_NAME, help="Only this topic."),
    ] = None,
    broker: Annotated[
        int | None, typer.Option("--broker", min=0, **BROKER_ID, help="Only this broker.", show_default=False)
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="How far back.")] = "90d",
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Show at most this many changes.")] = 100,
) -> int:
    """Show who changed which tags, newest first.

    Topics and brokers that are gone are included.

    A change by another program, such as kafka-kit's registry, is marked as such.

    Examples:

    \b
    kafkakit --profile prod registry history --topic orders --since 7d
    """
    from datetime import timedelta

    from kafkakit.cli.session import finish
    from kafkakit.core.quantities import parse_duration
    from kafkakit.registry.commands.client_options import require_object
    from kafkakit.registry.decide.tags import ObjectKind
    from kafkakit.registry.report import history_report
    from kafkakit.wiring import system_clock

    cli = cli_context(ctx)
    if topic is not None and broker is not None:
        raise UsageError("give --topic or --broker, not both")
    first = system_clock().now() - timedelta(seconds=parse_duration(since, "--since"))
    kind, name = (ObjectKind.TOPIC, topic) if topic is not None else (ObjectKind.BROKER, str(broker))
    named = topic is not None or broker is not None
    with registry.open(cli) as client:
        found = client.history(kind if named else None, name if named else "", since=first.isoformat(), most=limit)
        if named and not found and not client.history(kind, name, most=1):
            require_object(client, kind, name)
    return finish(cli, history_report(found))


@with_option_groups
def cleanup(
    ctx: typer.Context,
    place: TagPlace,
    rules: CleanupRules,
    consent: Consent,
    force: Annotated[
        bool, typer.Option("--force", help="Clean up no matter how many tagged topics or brokers are gone.")
    ] = False,
) -> int:
    """Mark and delete tags of what no longer exists.

    Tags are marked first, and deleted when they were marked long ago.

    registry serve does the same every 20 minutes. The marks are kafka-kit's, whose program may run beside this one.
    Deleted tags stay in the history. On a terminal the changes are shown and confirmed first; a timer is not asked,
    unless it uses --force.

    Examples:

    \b
    kafkakit --profile prod registry cleanup --dry-run
    kafkakit --profile prod registry cleanup --force --yes
    """
    from contextlib import ExitStack

    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.quantities import count_of
    from kafkakit.registry.act.upkeep import clean_up, plan_cleanups
    from kafkakit.registry.commands.serve import cleanup_ports, held_cleanup
    from kafkakit.registry.report import cleanup_report, planned_steps

    cli, rules = cli_context(ctx), replace(rules, force=force)
    place.apply(cli)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(cli, read_only=True))
        ports = cleanup_ports(session, place)
        if consent.dry_run:
            plans = plan_cleanups(ports, rules)
            return finish(cli, cleanup_report(plans, planned_steps(plans), is_dry=True))
        require_held = held_cleanup(session, place, stack)
        plans = plan_cleanups(ports, rules)
        is_timer = not (cli.input_allowed or force)  # which cannot be asked, and has always cleaned up
        if (planned := planned_steps(plans)) and not (consent.yes or is_timer):
            shown = cleanup_report(plans, planned, is_dry=True)
            cli.output.say(shown.text.rstrip("\n"))
            if not consent.confirm_on(cli, session.cluster_id, f"Change {count_of(len(planned), 'record')} of tags?"):
                return finish(cli, shown)
        steps = list(clean_up(ports, rules, plans, require_held))
    return finish(cli, cleanup_report(plans, steps, is_dry=False))


class TagStoreName(StrEnum):
    """A place where tags can be; `profile` is the profile's control store, whichever it is."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"
    FILE = "file"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationChoice:
    """From where, to where, and into what."""

    source: Annotated[
        TagStoreName,
        typer.Option(
            "--from", help="Store to copy from: kafka-kit's znodes, Kafka, files of this host, the profile's."
        ),
    ]
    target: Annotated[TagStoreName, typer.Option("--to", help="Store to copy to.")]
    zk_addr: str | None = option(
        None, envvar="REGISTRY_ZK_ADDR", metavar="HOST:PORT,...", help="ZooKeeper address, for its znodes."
    )
    zk_tags_prefix: str = option(
        "registry", envvar="REGISTRY_ZK_TAGS_PREFIX", help="The znode above tags in ZooKeeper."
    )
    merge: bool = option(
        False, "--merge", help="Allow a target that has tags: the source's tags override them, the rest stay."
    )

    def apply(self, cli: CliContext) -> None:
        """Make it the ZooKeeper of the invocation; raises `UsageError`."""
        if self.source is self.target:
            raise UsageError(f"--from and --to are both {self.source}")
        if not self.zk_tags_prefix.strip("/"):
            raise UsageError("--zk-tags-prefix is empty")
        if self.zk_addr:
            cli.take("override", [f"zookeeper.addr={self.zk_addr}"], "flag --zk-addr")

    def open(self, session: ClusterSession) -> tuple[TagStore, TagStore]:
        """Source and target; connect on first use. Raises `UsageError` where both are one store."""
        own = TagStoreName(session.settings.control_store)
        if {self.source, self.target} == {TagStoreName.PROFILE, own} and own is not TagStoreName.ZOOKEEPER:
            raise UsageError(f"the profile's control store is {own}: --from and --to are the same")
        return self._store(session, self.source), self._store(session, self.target)

    def _store(self, session: ClusterSession, name: TagStoreName) -> TagStore:
        from kafkakit.registry.act.tag_store import TagStore

        root = cluster_tags_root(session.cluster_id)
        if name is TagStoreName.ZOOKEEPER:
            store, root = session.znodes, self.zk_tags_prefix.strip("/")
        else:
            store = session.control if name is TagStoreName.PROFILE else session.control_of(name)
        return TagStore(store, root)


@with_option_groups
def migrate(ctx: typer.Context, choice: MigrationChoice, consent: Consent) -> int:
    """Copy all tags and their history to another store.

    Both are compared afterwards.

    The source is only read. Given again after an interruption, the command copies what is left.

    Examples:

    \b
    kafkakit --profile prod registry migrate --from zookeeper --zk-addr zk1:2181 --to profile --dry-run
    kafkakit --profile prod registry migrate --from zookeeper --zk-addr zk1:2181 --to profile --yes
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.quantities import count_of
    from kafkakit.registry.act.upkeep import migrate as copy
    from kafkakit.registry.report import migration_report

    cli = cli_context(ctx)
    choice.apply(cli)
    with open_session(cli, read_only=True) as session:
        source, target = choice.open(session)

        def report(made: Migration) -> Report:
            contents, is_done = (made.source, made.target), made.is_done
            return migration_report(
                (choice.source, choice.target), made.plan, contents, made.histories, is_done=is_done
            )

        def carry_out(*, dry_run: bool) -> Migration:
            with cli.output.progress("copying tags") as bar:
                return copy(source, target, bar, merge=choice.merge, dry_run=dry_run)

        done = carry_out(dry_run=consent.dry_run or not consent.yes)
        if not (done.is_done or consent.dry_run):
            is_needed = bool(done.plan.writes or done.histories)
            if is_needed:
                cli.output.say(report(done).text.rstrip("\n"))
            question = f"Copy the tags of {count_of(len(done.plan.writes), 'object')} to {choice.target}?"
            if not is_needed or consent.confirm_on(cli, session.cluster_id, question):
                done = carry_out(dry_run=False)
    return finish(cli, report(done))


GROUP_HELP = "Serve and tag topics and brokers over HTTP and gRPC."
app = kafka_kit_group(GROUP_HELP)
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
app.command("unmapped", cls=CliCommand)(list_unmapped)
app.command("translate-offsets", cls=CliCommand)(translate_offsets)
app.command("cleanup", cls=KafkaKitCommand)(cleanup)
app.command("migrate", cls=CliCommand)(migrate)
app.command("history", cls=CliCommand)(history)
add_kafka_kit_commands(app)
