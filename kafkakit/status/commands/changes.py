"""`kafkakit topic create`, `alter` and `delete`; `acl list` and `quota list`.

New partitions go where `topicmappr place` puts them. A topic's settings are changed by `config plan`, which `topic
alter` prints. The cluster's lock is held while something is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.completion import complete_topic_names
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.core.options import option

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.topicmappr.api import PlaceRequest

acl_app = new_group("List access control lists.")
quota_app = new_group("List client quotas.")
create_app, alter_app, delete_app = new_group(""), new_group(""), new_group("")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
Existing = Annotated[
    str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic_names, help="The topic.", show_default=False)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicShape:
    """What a new topic is made of."""

    partitions: int = option(1, "--partitions", min=1, help="Number of partitions.")
    replication: int = option(3, "--replication", min=1, help="Replicas of each partition.")
    settings: list[str] | None = option(None, "--set", metavar="KEY=VALUE", help="A setting of the topic. Repeatable.")


@create_app.command("create", cls=CliCommand)
@with_option_groups
def topic_create(ctx: typer.Context, shape: NewTopicShape, consent: Consent, topic: Name) -> int:
    """Create a topic whose replicas are spread over racks and brokers as `topicmappr place` spreads them.

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


@alter_app.command("alter", cls=CliCommand)
@with_option_groups
def topic_alter(
    ctx: typer.Context,
    consent: Consent,
    topic: Existing,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", min=1, help="Number of partitions that the tophas in the end.", show_default=False
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

    from kafkakit.cli.session import finish, open_access
    from kafkakit.core.errors import OperationFailedError, UsageError
    from kafkakit.core.quantities import count_of
    from kafkakit.status.decide.objects import TopicChange
    from kafkakit.status.report.objects import topic_change_report
    from kafkakit.topicmappr.api import decide_place

    command = "topic create" if is_new else "topic alter"
    consent.require_possible(cli)
    with open_access(cli, command, dry_run=consent.dry_run) as access:
        admin = access.admin
        snapshot = admin.snapshot(now=access.clock.now(), sizes=False)
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


@delete_app.command("delete", cls=CliCommand)
@with_option_groups
def topic_delete(ctx: typer.Context, consent: Consent, topic: Existing) -> int:
    """Delete a topic and all of its records, for good; the name is to be typed before.

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
    consent.require_possible(cli)
    with open_access(cli, "topic delete", dry_run=consent.dry_run) as access:
        states = access.admin.partition_states([topic])
        if not states:
            raise UsageError(f"topic {topic} does not exist")
        change = TopicChange(topic=topic, what="deleted with its records")
        question = f"Delete topic {topic} with its {len(states)} partitions from cluster {access.cluster_id}?"
        if not consent.dry_run and (consent.yes or cli.output.ask_typed(question, topic)):
            error = access.admin.delete_topic(topic)
            if error is not None:
                raise OperationFailedError(f"topic {topic}: Kafka refused: {error}")
            change = replace(change, done=True)
        cli.cluster_id = access.cluster_id
    return finish(cli, topic_change_report(change, "topic delete"))


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
    """List all client quotas, by user, client id or both; each broker keeps them for itself.

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
