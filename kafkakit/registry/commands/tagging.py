"""`kafkakit registry tag`, `untag`, `apply` and `import-labels`: what changes tags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.registry.commands.client_options import ObjectChoice, RegistryPlace, TagKeys, TagTexts

Prune = Annotated[
    list[str] | None,
    typer.Option(
        "--prune",
        metavar="PREFIX",
        help="Also delete the tags whose key begins with this and that no rule asks for. Repeatable.",
    ),
]


@with_option_groups
def tag(ctx: typer.Context, tags: TagTexts, objects: ObjectChoice, registry: RegistryPlace, consent: Consent) -> int:
    """Set tags of topics and brokers beside those that they have.

    Where objects are chosen by a query, the changes are shown and confirmed first. A broker that is down can be named
    by its id where it has replicas or tags; queries match live ones.

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

    Where objects are chosen by a query, the changes are shown and confirmed first.

    Examples:

    \b
    kafkakit --profile prod registry untag --brokers 'where tier = hot' tier
    """
    from kafkakit.registry.commands.client_options import end_changes

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        plan = objects.deleting(client, keys)
        return end_changes(cli, client, "registry untag", plan, consent, asks=not objects.is_exact)


@with_option_groups
def apply(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The tags that are wanted, YAML; `-` is stdin.", show_default=False)
    ],
    registry: RegistryPlace,
    consent: Consent,
    prune: Prune = None,
) -> int:
    """Give topics and brokers the tags that a file asks for, after showing what changes.

    The file lists rules under `topics` and `brokers`; each has `tags` and either `names` or a query in `where`. A tag
    that no rule names stays. An object whose tags another process changes meanwhile is left as it is and reported.

    Examples:

    \b
    kafkakit --profile prod registry apply tags.yaml --dry-run
    kafkakit --profile prod registry apply tags.yaml --prune k8s. --yes
    """
    from kafkakit.registry.commands.client_options import end_changes
    from kafkakit.registry.commands.desired_options import desired_changes, read_prefixes
    from kafkakit.registry.decide.desired import MAX_FILE_BYTES, read_desired
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
            help="What kubectl get pods,nodes -o json or -o yaml prints; `-` is stdin.",
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
    """Make tags of brokers from the labels of Kubernetes' pods and nodes.

    Prints a file for registry apply, or applies it. Labels of a pod go before those of its node.

    Examples:

    \b
    kubectl get pods -l app=kafka -o json > pods.json
    kafkakit registry import-labels pods.json --map topology.kubernetes.io/zone=zone > tags.yaml
    """
    from kafkakit.cli.session import finish
    from kafkakit.core.errors import UsageError
    from kafkakit.registry.commands.client_options import end_changes
    from kafkakit.registry.commands.desired_options import desired_changes, read_prefixes
    from kafkakit.registry.decide import labels
    from kafkakit.registry.show.changes import desired_report
    from kafkakit.wiring import read_input

    cli, command = cli_context(ctx), "registry import-labels"
    request = labels.LabelImport(tag_of=labels.parse_label_map(label_map), id_label=id_label, first_id=first_id)
    objects = labels.read_objects(read_input(file, labels.MAX_FILE_BYTES), str(file))
    desired = labels.import_labels(objects, request, str(file))
    if not apply_them:
        if prune or consent.yes or consent.dry_run:
            raise UsageError("--prune, --yes and --dry-run need --apply")
        return finish(cli, desired_report(command, desired))
    with registry.open(cli) as client:
        plan = desired_changes(client, desired, read_prefixes(prune))
        return end_changes(cli, client, command, plan, consent, asks=True)
