"""`kafkakit profile`: the named clusters of the configuration."""

from dataclasses import replace
from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, CliContext, cli_context, new_group
from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.session import finish, open_session
from kafkakit.config.keys import did_you_mean
from kafkakit.config.read.settings import Settings, masked_value, open_profiles
from kafkakit.core.errors import InputError, UsageError
from kafkakit.report.report import Report, ResultTable, records, single_row

app = new_group("List, show, choose and check cluster profiles.")

_NAME = typer.Argument(
    metavar="NAME", help="Profile; the one in use when not given.", autocompletion=complete_profile_names
)


@app.command("list", cls=CliCommand)
def list_profiles(ctx: typer.Context) -> int:
    """List the profiles of all configuration files, the one in use marked."""
    cli = cli_context(ctx)
    profiles = open_profiles(cli.given, cli.output.warn)
    current = profiles.current()
    columns = ("current", "name", "bootstrap_server", "file")
    rows: list[tuple[object, ...]] = []
    for name, source in profiles.files.profile_names().items():
        try:
            address = profiles.files.read(source).profiles[name].get("bootstrap_server")
        except InputError as error:
            cli.output.warn(error.message)
            address = None
        rows.append((name == current.name, name, address.value if address else None, str(source.path)))
    table = [("*" if row[0] else "", *row[1:]) for row in rows]
    empty = "no profiles are configured; make one with: kafkakit sandbox up"
    return finish(
        cli,
        Report(
            command="profile list",
            data={"profiles": records(columns, rows)},
            sections=(ResultTable(columns, table, empty=empty),),
            table=ResultTable(columns, tuple(rows)),
        ),
    )


@app.command("show", cls=CliCommand)
def show(ctx: typer.Context, name: Annotated[str | None, _NAME] = None) -> int:
    """Print the merged configuration, each value with its origin, secrets masked."""
    cli = cli_context(ctx)
    settings = _settings(cli, name)
    rows = tuple((key, masked_value(entry, key), entry.origin) for key, entry in settings.entries.items())
    folders = {
        "config": settings.config_dir,
        "state": settings.state_dir,
        "cache": settings.cache_dir,
        "runtime": settings.runtime_dir,
    }
    chosen = f"{settings.profile} (from {settings.choice.origin})" if settings.profile else "none"
    return finish(
        cli,
        Report(
            command="profile show",
            data={
                "profile": settings.profile,
                "profile_origin": settings.choice.origin or None,
                "values": {key: {"value": value, "origin": origin} for key, value, origin in rows},
                "folders": {kind: str(path) for kind, path in folders.items()},
            },
            sections=(
                f"profile: {chosen}",
                "",
                ResultTable(("key", "value", "origin"), rows),
                "",
                *(f"{kind} folder: {path}" for kind, path in folders.items()),
            ),
        ),
    )


@app.command("use", cls=CliCommand)
def use(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Profile.", autocompletion=complete_profile_names)
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Clear the default profile.")] = False,
) -> int:
    """Make this the default profile: it is used unless --profile or a project's file names another."""
    cli = cli_context(ctx)
    if (name is None) == (not none):
        raise UsageError("name one profile, or pass --none", hint="list them with: kafkakit profile list")
    profiles = open_profiles(cli.given, cli.output.warn)
    known = profiles.files.profile_names()
    if name is not None and name not in known:
        raise UsageError(
            f"there is no profile {name[:100]!r}{did_you_mean(name, known)}",
            hint="list them with: kafkakit profile list",
        )
    path = profiles.use(name)
    text = f"profile in use: {name}" if name else "no profile is in use"
    data = {"profile": name, "file": str(path)}
    return finish(cli, Report(command="profile use", data=data, sections=(text,), table=single_row(data)))


@app.command("check", cls=CliCommand)
def check(ctx: typer.Context, name: Annotated[str | None, _NAME] = None) -> int:
    """Check a profile: files and secrets are there, the cluster answers, and it is the pinned one."""
    cli = cli_context(ctx)
    settings = _settings(cli, name)
    with open_session(cli, read_only=True, settings=settings) as session:
        info = session.admin.cluster()
    facts = {
        "profile": settings.profile,
        "bootstrap_server": settings.bootstrap_servers,
        "protocol": str(settings.security.protocol),
        "cluster_id": info.cluster_id,
        "pinned": settings.cluster_id is not None,
        "brokers": len(info.brokers),
        "kafka_version": info.kafka_version,
    }
    rows = tuple(facts.items())
    return finish(
        cli,
        Report(
            command="profile check",
            data=facts,
            sections=(ResultTable(("what", "found"), rows),),
        ),
    )


def _settings(cli: CliContext, name: str | None) -> Settings:
    """As `--profile NAME` would have them."""
    return cli.settings_of(cli.given if name is None else replace(cli.given, profile=name, profile_origin="argument"))
