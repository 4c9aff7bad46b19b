"""`kafkakit registry create` and `delete`: topics."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.registry.commands.client_options import RegistryPlace, TopicName
from kafkakit.registry.commands.creation_options import NewTopicOptions


@with_option_groups
def create(
    ctx: typer.Context, name: TopicName, topic: NewTopicOptions, registry: RegistryPlace, consent: Consent
) -> int:
    """Create a topic with its tags, spread evenly over brokers, in different racks.

    Examples:

    \b
    kafkakit --profile prod registry create orders --partitions 12 --tag team:pay --target-tag tier:hot
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.show.topics import created_report

    cli = cli_context(ctx)
    request = topic.request(name)
    with registry.open(cli, read_only=consent.dry_run) as client:
        topic.check(client, request)
        if not consent.dry_run:
            client.create_topic(request)
    return finish(cli, created_report(request, is_done=not consent.dry_run))


@with_option_groups
def delete(ctx: typer.Context, name: TopicName, registry: RegistryPlace, consent: Consent) -> int:
    """Delete a topic with all its records; its tags go with the next cleanup.

    Examples:

    \b
    kafkakit --profile prod registry delete orders-old
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.commands.creation_options import existing_topic
    from kafkakit.registry.show.topics import deleted_report

    cli = cli_context(ctx)
    consent.require_possible(cli)
    with registry.open(cli, read_only=consent.dry_run) as client:
        found = existing_topic(client, name)
        question = f"Delete topic {name} with its {found.partitions} partitions?"
        is_confirmed = not consent.dry_run and consent.confirm(cli, question)
        if is_confirmed:
            client.delete_topic(name)
    return finish(cli, deleted_report(found, is_done=is_confirmed, is_dry=consent.dry_run))
