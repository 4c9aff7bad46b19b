"""`kafkakit topic`, `partition`, `broker`, `group`, `cluster`, `acl` and `quota`: what there is, and one described.

Only topics are changed here, with the cluster's lock held. New partitions go where `topicmappr place` puts them; a
topic's settings are changed by `config plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import PodsFile
from kafkakit.cli.completion import (
    BROKER_CHOICE,
    TOPIC_CHOICE,
    TOPIC_SETTING,
    complete_broker_ids,
    complete_group_names,
    complete_topic_names,
)
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.core.options import option
from kafkakit.status.decide.objects import PartitionWord, TopicOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.report.report import Report
    from kafkakit.status.decide.judgement import BrokerStatus, ClusterStatus
    from kafkakit.status.decide.objects import PartitionRow
    from kafkakit.topicmappr.api import PlaceRequest


class ListFormat(StrEnum):
    """How a list is written."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    TSV = "tsv"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOutput:
    """The format of a list."""

    output: ListFormat | None = option(
        None,
        "-o",
        "--output",
        envvar="KAFKAKIT_OUTPUT",
        help="Format of the list: wide has more columns, name names only.",
    )

    def finish(self, cli: CliContext, report: Report) -> int:
        """Write the list."""
        from dataclasses import replace
        from functools import partial

        from kafkakit.cli.session import finish
        from kafkakit.report.pages import sections_page
        from kafkakit.report.report import RawDocument

        if self.output is ListFormat.NAME:
            text = "".join(f"{name}\n" for name in report.names or ())
            report = replace(report, sections=(RawDocument(text),), page=partial(sections_page, report))
        return finish(cli, report)

    def take(self, cli: CliContext) -> None:
        """Make the format that of the command's output."""
        if self.output is not None:
            cli.take_format(self.output.value)


topic_app = new_group("List, describe, create, alter and delete topics.")
partition_app = new_group("List and describe partitions.")
group_app = new_group("List and describe consumer groups.")
cluster_app = new_group("Describe the cluster.")
acl_app = new_group("List access control lists.")
quota_app = new_group("List client quotas.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
Existing = Annotated[
    str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic_names, help="The topic.", show_default=False)
]

Topics = Annotated[
    str, typer.Argument(**TOPIC_CHOICE, help="Only these topics; all when not given.", show_default=False)
]


@topic_app.command("list", cls=CliCommand)
@with_option_groups
def topic_list(
    ctx: typer.Context,
    form: ListOutput,
    topics: Topics = "",
    sort: Annotated[TopicOrder, typer.Option("--sort", help="Order of the list.")] = TopicOrder.NAME,
    internal: Annotated[bool, typer.Option("--internal", help="Also list topics whose names begin with __.")] = False,
) -> int:
    """List topics: partitions, replication, state, size.

    Examples:

    \b
    kafkakit --profile prod topic list
    kafkakit --profile prod topic list 'where rf < 3' -o name
    kafkakit --profile prod topic list 'orders.*' --sort size -o wide
    """
    from kafkakit.cli.session import open_session
    from kafkakit.status.act.objects import read_topics
    from kafkakit.status.decide.objects import sorted_topics
    from kafkakit.status.report.objects import topics_report

    cli = cli_context(ctx)
    form.take(cli)
    with open_session(cli, read_only=True) as session:
        rows = read_topics(session.admin, session.clock, topics, internal=internal)
    return form.finish(cli, topics_report(sorted_topics(rows, sort), wide=form.output is ListFormat.WIDE))


@topic_app.command("describe", cls=CliCommand)
def topic_describe(ctx: typer.Context, topic: Existing) -> int:
    """Show one topic: settings, partitions, groups.

    Partitions come worst first; groups are those with commits on it.

    Examples:

    \b
    kafkakit --profile prod topic describe orders
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.status.act.objects import read_topic
    from kafkakit.status.report.objects import topic_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        facts = read_topic(session.admin, session.groups, session.clock, topic)
    return finish(cli, topic_report(facts, cli.program))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicShape:
    """What a new topic is made of."""

    partitions: int = option(1, "--partitions", min=1, help="Number of partitions.")
    replication: int = option(3, "--replication", min=1, help="Replicas of each partition.")
    settings: list[str] | None = option(None, "--set", **TOPIC_SETTING)


@topic_app.command("create", cls=CliCommand)
@with_option_groups
def topic_create(ctx: typer.Context, shape: NewTopicShape, consent: Consent, topic: Name) -> int:
    """Create a topic, spread over racks and brokers.

    Replicas go where `topicmappr place` would put them.

    Examples:

    \b
    kafkakit --profile prod topic create orders --partitions 12 --set min.insync.replicas=2
    kafkakit --profile prod topic create orders --partitions 12 --dry-run
    """
    from kafkakit.status.decide.objects import parse_settings
    from kafkakit.topicmappr.api import PlaceRequest

    settings = parse_settings(shape.settings or ())
    request = PlaceRequest(topic=topic, partitions=shape.partitions, replication=shape.replication)
    return _grow(cli_context(ctx), request, consent, settings=settings, is_new=True)


@topic_app.command("alter", cls=CliCommand)
@with_option_groups
def topic_alter(
    ctx: typer.Context,
    consent: Consent,
    topic: Existing,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", min=1, help="Number of partitions that the topic has in the end.", show_default=False
        ),
    ],
) -> int:
    """Add partitions to a topic. Records with keys go to other partitions from then on.

    Settings of topics are changed step by step and watched: see `kafkakit config plan --topics`.

    Examples:

    \b
    kafkakit --profile prod topic alter orders --partitions 24 --dry-run
    """
    from kafkakit.topicmappr.api import PlaceRequest

    return _grow(cli_context(ctx), PlaceRequest(topic=topic, partitions=partitions), consent, settings={}, is_new=False)


def _grow(cli: CliContext, request: PlaceRequest, consent: Consent, *, settings: dict[str, str], is_new: bool) -> int:
    from dataclasses import replace

    from kafkakit.broker.api_act import open_records, without_leaving
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.errors import OperationFailedError, UsageError
    from kafkakit.core.quantities import count_of
    from kafkakit.status.decide.objects import TopicChange
    from kafkakit.status.report.objects import topic_change_report
    from kafkakit.topicmappr.api import decide_place
    from kafkakit.wiring import write_file

    command = "topic create" if is_new else "topic alter"
    with open_access(cli, command, dry_run=consent.dry_run) as access, open_session(cli, read_only=True) as reading:
        admin, state_dir = access.admin, cli.settings.state_dir
        snapshot = admin.snapshot(now=access.clock.now(), sizes=False)
        records = open_records(state_dir, snapshot.cluster_id, write_file, access.clock, lambda: reading.control_view)
        snapshot = without_leaving(snapshot, records, cli.output, cli.program, admin=admin)
        present = next((topic for topic in snapshot.topics if topic.name == request.topic), None)
        if is_new and present is not None:
            raise UsageError(f"topic {request.topic} exists already")
        if not is_new:
            if present is None:
                raise UsageError(f"topic {request.topic} does not exist")
            if request.partitions is not None and request.partitions <= len(present.partitions):
                raise UsageError(
                    f"topic {request.topic} has {count_of(len(present.partitions), 'partition')}",
                    hint="partitions can be added, and never taken away",
                )
            replication = max((len(p.replicas) - len(p.adding) for p in present.partitions), default=1)
            request = replace(request, replication=replication)
        placed = decide_place(snapshot, request)
        lists = dict(placed.numbered)
        what = "created" if is_new else f"given {count_of(len(lists), 'more partition')}"
        change = TopicChange(topic=request.topic, what=what, lists=lists, configs=settings, notes=placed.notes)
        question = f"{'Create' if is_new else 'Add partitions to'} topic {request.topic}?"
        if not consent.dry_run and consent.confirm_on(cli, access.cluster_id, question):
            if is_new:
                error = admin.create_topic(request.topic, lists, settings)
            else:
                error = admin.create_partitions(request.topic, lists)
            if error is not None:
                raise OperationFailedError(f"topic {request.topic}: Kafka refused: {error}")
            change = replace(change, done=True)
        cli.cluster_id = access.cluster_id
    return finish(cli, topic_change_report(change, command))


@topic_app.command("delete", cls=CliCommand)
@with_option_groups
def topic_delete(ctx: typer.Context, consent: Consent, topic: Existing) -> int:
    """Delete a topic and all of its records, for good.

    The name is to be typed before.

    Examples:

    \b
    kafkakit --profile staging topic delete orders-old --dry-run
    """
    from dataclasses import replace

    from kafkakit.cli.session import finish, open_access
    from kafkakit.core.errors import OperationFailedError, UsageError
    from kafkakit.status.decide.objects import TopicChange
    from kafkakit.status.report.objects import topic_change_report

    cli = cli_context(ctx)
    with open_access(cli, "topic delete", dry_run=consent.dry_run) as access:
        states = access.admin.partition_states([topic])
        if not states:
            raise UsageError(f"topic {topic} does not exist")
        if topic.startswith("__"):
            raise UsageError(f"{topic} is one of Kafka's own topics; they are not deleted here")
        change = TopicChange(topic=topic, what="deleted with its records")
        question = f"Delete topic {topic} with its {len(states)} partitions from cluster {access.cluster_id}?"
        if not consent.dry_run and (consent.yes or cli.output.ask_typed(question, topic)):
            error = access.admin.delete_topic(topic)
            if error is not None:
                raise OperationFailedError(f"topic {topic}: Kafka refused: {error}")
            change = replace(change, done=True)
        cli.cluster_id = access.cluster_id
    return finish(cli, topic_change_report(change, "topic delete"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """Which partitions are listed; several states add up."""

    offline: bool = option(False, "--offline", help="Only those without a leader.")
    under_min_isr: bool = option(False, "--under-min-isr", help="Only those that acks=all cannot write to.")
    at_min_isr: bool = option(False, "--at-min-isr", help="Only those that one more fault puts under min ISR.")
    under_replicated: bool = option(False, "--under-replicated", help="Only those with replicas that are not in sync.")
    moving: bool = option(False, "--moving", help="Only those that are being moved.")
    not_preferred: bool = option(False, "--not-preferred", help="Only those not led by the first of their replicas.")
    broker: int | None = option(
        None, "--broker", metavar="ID", autocompletion=complete_broker_ids, help="Only those with a replica there."
    )

    def keep(self) -> Callable[[PartitionRow], bool]:
        """Whether a partition is listed."""
        words = {
            word
            for word, is_given in (
                (PartitionWord.OFFLINE, self.offline),
                (PartitionWord.UNDER_MIN_ISR, self.under_min_isr),
                (PartitionWord.AT_MIN_ISR, self.at_min_isr),
                (PartitionWord.MOVING, self.moving),
            )
            if is_given
        }
        chosen = bool(words) or self.under_replicated or self.not_preferred

        def kept(row: PartitionRow) -> bool:
            if self.broker is not None and self.broker not in row.replicas:
                return False
            short = len(row.isr) < len(row.replicas) - len(row.adding)
            return (
                not chosen
                or row.word in words
                or (self.under_replicated and short)
                or (self.not_preferred and not row.is_preferred)
            )

        return kept


@partition_app.command("list", cls=CliCommand)
@with_option_groups
def partition_list(ctx: typer.Context, form: ListOutput, which: PartitionFilter, topics: Topics = "") -> int:
    """List partitions, worst first: leader, replicas, in sync.

    Examples:

    \b
    kafkakit --profile prod partition list --under-replicated
    kafkakit --profile prod partition list orders --broker 1004 -o tsv
    """
    from kafkakit.cli.session import open_session
    from kafkakit.status.act.objects import read_partitions
    from kafkakit.status.report.objects import partitions_report

    cli, keep = cli_context(ctx), which.keep()
    form.take(cli)
    with open_session(cli, read_only=True) as session:
        rows = read_partitions(session.admin, session.clock, topics, which.broker)
    return form.finish(cli, partitions_report([row for row in rows if keep(row)]))


@partition_app.command("describe", cls=CliCommand)
def partition_describe(
    ctx: typer.Context,
    partition: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="The partition.", show_default=False)],
) -> int:
    """Show one partition: its replicas, offsets, producers.

    Each replica has its broker, its log dir and how far it is behind.

    Examples:

    \b
    kafkakit --profile prod partition describe orders/3
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.status.act.objects import read_partition
    from kafkakit.status.decide.objects import parse_partition
    from kafkakit.status.report.objects import partition_report

    cli, key = cli_context(ctx), parse_partition(partition)
    with open_session(cli, read_only=True) as session:
        facts = read_partition(session.admin, session.log, key)
    return finish(cli, partition_report(facts, cli.program))


@group_app.command("list", cls=CliCommand)
@with_option_groups
def group_list(
    ctx: typer.Context,
    form: ListOutput,
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...",
            autocompletion=complete_group_names,
            help="Only these groups; names or globs in quotes ('orders-*').",
            show_default=False,
        ),
    ] = None,
) -> int:
    """List consumer groups, furthest behind first.

    Examples:

    \b
    kafkakit --profile prod group list
    kafkakit --profile prod group list 'orders-*' -o name
    """
    from kafkakit.cli.session import open_session
    from kafkakit.status.act.objects import read_groups
    from kafkakit.status.report.objects import groups_report

    cli = cli_context(ctx)
    form.take(cli)
    with open_session(cli, read_only=True) as session:
        rows = read_groups(session.groups, session.log, groups or ())
    return form.finish(cli, groups_report(rows))


@group_app.command("describe", cls=CliCommand)
def group_describe(
    ctx: typer.Context,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", autocompletion=complete_group_names, help="The group.", show_default=False)
    ],
) -> int:
    """Show one group: its members, and where it stands.

    Members come with their partitions.

    Examples:

    \b
    kafkakit --profile prod group describe fraud-app
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.status.act.objects import read_group
    from kafkakit.status.report.objects import group_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        facts = read_group(session.groups, session.log, group)
    return finish(cli, group_report(facts, cli.program))


broker_list_app = new_group("")


@broker_list_app.command("list", cls=CliCommand)
@with_option_groups
def broker_list(
    ctx: typer.Context,
    form: ListOutput,
    place: PodsFile,
    brokers: Annotated[
        str, typer.Argument(**BROKER_CHOICE, help="Only these brokers; all when not given.", show_default=False)
    ] = "",
) -> int:
    """List brokers: state, rack, leaders, disks, throttles.

    Examples:

    \b
    kafkakit --profile prod broker list
    kafkakit --profile prod broker list 'where rack = a' -o name
    kafkakit --profile prod broker list --pods pods.json
    """
    from dataclasses import replace

    from kafkakit.status.report.objects import brokers_report

    cli = cli_context(ctx)
    form.take(cli)
    status = _status(cli, place)
    if brokers:
        status = replace(status, brokers=tuple(_chosen_brokers(cli, status, brokers)))
    return form.finish(cli, brokers_report(status))


def _chosen_brokers(cli: CliContext, status: ClusterStatus, text: str) -> Iterator[BrokerStatus]:
    """The brokers of a list or a query; a query needs another look at the cluster."""
    from kafkakit.cli.session import open_session
    from kafkakit.core.query import brokers_where
    from kafkakit.core.selection import parse_broker_list

    wanted = parse_broker_list(text, "BROKERS")
    if wanted.where is None:
        known = frozenset(row.id for row in status.brokers)
        ids = wanted.resolve(frozenset(row.id for row in status.brokers if row.replicas), known)
    else:
        with open_session(cli, read_only=True) as session:
            snapshot = session.admin.snapshot(now=session.clock.now(), sizes=True)
        ids = tuple(sorted(brokers_where(snapshot, wanted.where, missing=True)))
    yield from (_broker_of(status, number) for number in ids)


broker_describe_app = new_group("")


@broker_describe_app.command("describe", cls=CliCommand)
@with_option_groups
def broker_describe(
    ctx: typer.Context,
    place: PodsFile,
    broker: Annotated[
        int, typer.Argument(metavar="ID", autocompletion=complete_broker_ids, help="The broker.", show_default=False)
    ],
) -> int:
    """Show one broker: problems, log dirs, settings.

    Its largest replicas are shown as well.

    Examples:

    \b
    kafkakit --profile prod broker describe 1004
    kafkakit --profile prod broker describe 1004 --pods pods.json
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.status.act.objects import read_broker
    from kafkakit.status.report.objects import broker_report

    cli = cli_context(ctx)
    status = _status(cli, place)
    found, facts = _broker_of(status, broker), None
    if found.state == "alive":
        with open_session(cli, read_only=True) as session:
            facts = read_broker(session.admin, broker)
    return finish(cli, broker_report(status, found, facts))


@cluster_app.command("describe", cls=CliCommand)
def cluster_describe(ctx: typer.Context) -> int:
    """Show the cluster: id, version, racks, controllers.

    Controllers come with how far they are behind; the end says what this user may do.

    Examples:

    \b
    kafkakit --profile prod cluster describe
    """
    from kafkakit.cli.session import finish
    from kafkakit.status.report.objects import cluster_report

    cli = cli_context(ctx)
    return finish(cli, cluster_report(_status(cli, PodsFile())))


@acl_app.command("list", cls=CliCommand)
def acl_list(ctx: typer.Context) -> int:
    """List all access control lists: who may do what, or may not.

    Examples:

    \b
    kafkakit --profile prod acl list -o tsv
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.status.report.objects import acls_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        bindings = session.admin.describe_acls(None, None)
    return finish(cli, acls_report(bindings))


@quota_app.command("list", cls=CliCommand)
def quota_list(ctx: typer.Context) -> int:
    """List client quotas, by user, client id or both.

    Each broker keeps them for itself.

    Examples:

    \b
    kafkakit --profile prod quota list
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.status.report.objects import quotas_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        quotas = session.admin.describe_client_quotas()
    return finish(cli, quotas_report(quotas))


def _broker_of(status: ClusterStatus, broker: int) -> BrokerStatus:
    """One broker of the cluster; `UsageError` for any other."""
    from kafkakit.core.errors import UsageError
    from kafkakit.core.text import few_of

    found = next((row for row in status.brokers if row.id == broker), None)
    if found is None:
        hint = f"it has {few_of(row.id for row in status.brokers)}"
        raise UsageError(f"broker {broker} is not in the cluster", hint=hint)
    return found


def _status(cli: CliContext, place: PodsFile) -> ClusterStatus:
    """The status of the one cluster; raises what hindered its brokers from being read."""
    from kafkakit.cli.session import open_session
    from kafkakit.core.errors import TryLaterError
    from kafkakit.status.commands.status import read_status
    from kafkakit.status.decide.judgement import PartName

    (status,) = read_status(cli, place)
    if status.reading.info is None:
        with open_session(cli, read_only=True) as session:
            session.admin.cluster()  # what is refused it says in its own words
        raise TryLaterError(status.reading.failure_of(PartName.BROKERS))
    cli.cluster_id = status.reading.info.cluster_id
    return status
