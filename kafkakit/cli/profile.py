"""`kafkakit profile`: the named clusters of the configuration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, CliContext, cli_context, new_group
from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.run_options import DryRun
from kafkakit.cli.session import finish, open_session
from kafkakit.config.keys import SASL_PASSWORD, ClientFileKind, Rank, did_you_mean
from kafkakit.config.read.files import ImportChoice, imported_layer, read_other_client
from kafkakit.config.read.settings import GivenSettings, Settings, masked_value, new_profile_values, open_profiles
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.text import few_of, quote, shell_command
from kafkakit.report.report import (
    NextCommands,
    Part,
    Remarks,
    Report,
    ResultTable,
    Section,
    attributes,
    records,
    single_row,
)

if TYPE_CHECKING:
    from kafkakit.config.client_properties import ClientFile, ClientProfile
    from kafkakit.kubernetes.profiles import KubernetesFile

app = new_group("List, show, add, choose and check cluster profiles.")

_NAME = typer.Argument(
    metavar="NAME", help="Profile; the one in use when not given.", autocompletion=complete_profile_names
)


@app.command("list", cls=CliCommand)
def list_profiles(ctx: typer.Context) -> int:
    """List the profiles of all files; marks the one in use.

    Examples:

    \b
    kafkakit profile list
    """
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
    empty = "no profiles are configured; add one: kafkakit profile add NAME -B HOST:PORT; or: kafkakit sandbox up"
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
    """Print the merged configuration, each value's origin.

    Secrets are masked.

    Examples:

    \b
    kafkakit profile show prod
    """
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
    """Make this the default profile.

    It is used unless --profile or a project's file names another.

    Examples:

    \b
    kafkakit profile use prod
    """
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
    if name is not None and known[name].rank is Rank.CONFIG:
        file = known[name].path
        cli.output.warn(f"profile {name} is in {file}, and will not be found without --config {file}")
    path = profiles.use(name)
    text = f"profile in use: {name}" if name else "no profile is in use"
    data = {"profile": name, "file": str(path)}
    return finish(cli, Report(command="profile use", data=data, sections=(text,), table=single_row(data)))


@app.command("check", cls=CliCommand)
def check(ctx: typer.Context, name: Annotated[str | None, _NAME] = None) -> int:
    """Check a profile: files, secrets, address, cluster.

    The cluster must answer, and be the pinned one.

    Examples:

    \b
    kafkakit profile check prod
    """
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


_Replace = Annotated[
    bool,
    typer.Option("--replace", help="Write a profile anew that exists already; comments inside it are lost."),
]


@app.command("add", cls=CliCommand)
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new profile.")],
    default: Annotated[bool, typer.Option("--default", help="Also make it the default profile.")] = False,
    replace_old: _Replace = False,
    dry_run: DryRun = False,
) -> int:
    """Add a profile to the configuration file.

    -B and -X give its keys; -X list names them. Passwords are never written: name the file, the environment
    variable or the systemd credential that holds one. The profile is added to the text of your config.yaml, or of the
    file of --config, whose comments and other entries stay as they are; comments inside a replaced profile are lost.

    Examples:

    \b
    kafkakit profile add dev -B localhost:9092 --default
    kafkakit profile add eu -B kafka-1:9093,kafka-2:9093 -X security.protocol=SSL -X security.tls.ca_file=ca.pem
    kafkakit profile add prod -B kafka-1:9093 -X security.protocol=SASL_SSL -X security.sasl.mechanism=SCRAM-SHA-512 \\
      -X security.sasl.username=ops -X security.sasl.password_file=/run/secrets/kafka
    kafkakit profile add dev -B localhost:9094 --replace --dry-run
    """
    cli = cli_context(ctx)
    if default and cli.given.config is not None:
        raise UsageError(
            f"--default is for your own config.yaml: without --config or KAFKAKIT_CONFIG, {name[:100]!r} is not found",
            hint=f"add the profile without --default, then set profile: {name[:100]} in {cli.given.config}",
        )
    if cli.given.command_config is not None:
        cli.output.warn("--command-config is not read here; to make a profile of it: kafkakit profile import FILE")
    values = new_profile_values(cli.given, name, None, cli.output.warn)
    profiles = open_profiles(cli.given, cli.output.warn)
    path = profiles.target.path
    replaced = profiles.write({name: values}, replace=replace_old, dry_run=dry_run)
    if default and not dry_run:
        profiles.use(name)
        _warn_unless_in_use(cli, name)
    data = {
        "profile": name,
        "file": str(path),
        "replaced": bool(replaced),
        "default": default,
        "dry_run": dry_run,
        "values": values,
    }
    use = f"profile in use{' would be' if dry_run else ''}: {name}"
    sections = [*_written_sections(name, values, path, dry_run), *([use] if default else ())]
    return finish(cli, Report(command="profile add", data=data, sections=(*sections, _next_commands(cli, [name]))))


@app.command("import", cls=CliCommand)
def import_file(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Configuration file of another Kafka client.")],
    kind: Annotated[
        ClientFileKind | None, typer.Option("--from", help="Whose file it is; seen from its content when not given.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the profile; of a file with several, take only this one."),
    ] = None,
    listener: Annotated[
        str | None,
        typer.Option(
            "--listener", metavar="NAME", help="Strimzi's listener, or the port of a Service, if there are several."
        ),
    ] = None,
    keys_into: Annotated[
        Path | None,
        typer.Option(
            "--keys-into",
            metavar="FOLDER",
            help="Write certificates, keys and the password of a Kubernetes Secret there (mode 0600).",
        ),
    ] = None,
    replace_old: _Replace = False,
    dry_run: DryRun = False,
) -> int:
    """Import profiles from another Kafka client's file.

    Reads config.toml of kcl, config.yml of kafkactl (each context is a profile), properties files of librdkafka, kcat
    and Java clients, and what kubectl prints: Strimzi's Kafka with Secrets of a user and of the CA, Secrets of
    Confluent's operator, a StatefulSet with its Service. -B and -X add what the file lacks. Passwords are not copied:
    the profile names an environment variable for each, and the line that sets it is printed. Keys that have no
    counterpart are listed.

    Examples:

    \b
    kafkakit profile import ~/.config/kcl/config.toml --name dev
    kafkakit profile import ~/.config/kafkactl/config.yml --dry-run
    kafkakit profile import client.properties --name prod -B kafka-1:9093
    kubectl get kafka/prod secret/ops secret/prod-cluster-ca-cert -o json | kafkakit profile import - --name prod
    """
    cli = cli_context(ctx)
    has_address = "bootstrap_server" in cli.given.flags
    choice = ImportChoice(kind=kind, name=name, listener=listener, has_address=has_address)
    found = read_other_client(file, choice, cli.output.warn)
    profiles = open_profiles(cli.given, cli.output.warn)
    keys = _key_files(found, keys_into, profiles.target.path)
    found = keys.found
    chosen = profiles.with_own_variables(_chosen_profiles(cli, found, name, file))
    values = {
        profile.name: new_profile_values(cli.given, profile.name, imported_layer(file, profile), cli.output.warn)
        for profile in chosen
    }
    if keys_into is not None and not dry_run:
        profiles.write(values, replace=replace_old, dry_run=True)  # what hinders it is told before a key is written
        keys.write(replace_old=replace_old)
    replaced = profiles.write(values, replace=replace_old, dry_run=dry_run)
    path = profiles.target.path
    sections: list[Part] = []
    listed: list[dict[str, object]] = []
    for profile in chosen:
        own = values[profile.name]
        # One that -X names in another way is not asked for.
        secrets = [secret for secret in profile.secrets if own.get(f"{secret.key}_env") == secret.variable]
        sections += _written_sections(profile.name, own, path, dry_run)
        for secret in secrets:
            purpose = f"{secret.key} stands in {secret.place} and was not copied; set it in your shell before use:"
            sections.append(NextCommands((keys.setting(secret.variable),), purpose))
        listed.append(
            {
                "profile": profile.name,
                "replaced": profile.name in replaced,
                "values": own,
                "secrets": [attributes(secret, "key variable place") for secret in secrets],
            }
        )
    left_out = [*found.left_out, *(key for profile in chosen for key in profile.left_out)]
    sections += [Remarks("not taken over", left_out), *keys.sections(dry_run), _next_commands(cli, list(values))]
    rows = [(profile, *item) for profile, own in values.items() for item in own.items()]
    data = {
        "source": str(file),
        "kind": found.kind,
        "file": str(path),
        "dry_run": dry_run,
        "profiles": listed,
        "not_taken_over": [attributes(key, "name place why") for key in left_out],
        **keys.data(),
    }
    table = ResultTable(("profile", "key", "value"), rows)
    return finish(cli, Report(command="profile import", data=data, sections=sections, table=table))


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyFiles:
    """What a profile of Kubernetes needs besides its text; empty for a file of another client."""

    found: "ClientFile"
    of_kubernetes: "KubernetesFile | None" = None
    folder: Path = Path()
    is_written: bool = False

    def write(self, *, replace_old: bool) -> None:
        """Write certificates, keys and the password, for this user only; `UsageError` for files that are there."""
        from kafkakit.wiring import write_file

        paths = {self.folder / each.name: each for each in self.of_kubernetes.files} if self.of_kubernetes else {}
        present = [path for path in paths if path.exists()]
        if present and not replace_old:
            raise UsageError(f"{few_of(present)} exists already", hint="pass --replace, or name another folder")
        if paths:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, each in paths.items():
            write_file(path, each.data.reveal().encode(), 0o600)

    def setting(self, variable: str) -> str:
        """The line that sets a password's variable."""
        files = self.of_kubernetes.files if self.of_kubernetes is not None else ()
        fetch = next((each.fetch for each in files if each.key == SASL_PASSWORD), None)
        return f"read -rs {variable} && export {variable}" if fetch is None else f'export {variable}="$({fetch})"'

    def sections(self, dry_run: bool) -> Iterator[Part]:
        """The files, or the commands that write them, and how to reach pods from elsewhere."""
        from kafkakit.config.read.environment import read_environment
        from kafkakit.kubernetes.profiles import forward_lines, host_lines

        if self.of_kubernetes is None:
            return
        yield Remarks("note", self.of_kubernetes.notes)
        paths = [(self.folder / each.name, each) for each in self.of_kubernetes.files]
        if self.is_written:
            verb = "would be written" if dry_run else "written"
            yield from (f"{path} {verb}" for path, _ in paths)
        elif needed := [(path, each.fetch) for path, each in paths if each.key != SASL_PASSWORD]:
            folder = quote(str(self.folder))
            lines = [f"(umask 077 && mkdir -p {folder} && {fetch} > {quote(str(path))})" for path, fetch in needed]
            yield NextCommands(lines, "write the files that the profile names, or import with --keys-into:")
        forwards = self.of_kubernetes.forwards
        if forwards and "KUBERNETES_SERVICE_HOST" not in read_environment():
            yield NextCommands(
                tuple(forward_lines(forwards)),
                "these addresses resolve only inside Kubernetes; from here, make the pods answer on this host:",
            )
            said = "and let /etc/hosts name them as the brokers' advertised.listeners do:"
            yield Section(said, list(host_lines(forwards)))

    def data(self) -> dict[str, object]:
        """What was read and written, for programs."""
        if self.of_kubernetes is None:
            return {}
        names = [str(self.folder / each.name) for each in self.of_kubernetes.files]
        return {"key_files": names, "key_files_written": self.is_written, "notes": list(self.of_kubernetes.notes)}


def _key_files(found: "ClientFile", keys_into: Path | None, target: Path) -> _KeyFiles:
    """The files of a profile, in the folder that is named or beside the configuration."""
    from kafkakit.kubernetes.profiles import KubernetesFile, with_paths

    if not isinstance(found, KubernetesFile):
        if keys_into is not None:
            raise UsageError("--keys-into is for what kubectl printed: other files hold no keys")
        return _KeyFiles(found=found)
    folder = (keys_into or target.parent / "keys" / found.profiles[0].name).absolute()
    placed = with_paths(found, str(folder), with_password=keys_into is not None)
    return _KeyFiles(found=placed, of_kubernetes=placed, folder=folder, is_written=keys_into is not None)


def _chosen_profiles(cli: CliContext, found: "ClientFile", name: str | None, file: Path) -> tuple["ClientProfile", ...]:
    """The profiles to take: all of the file, or the one that is wanted of several."""
    chosen = found.profiles
    names = [profile.name for profile in chosen]
    if name is not None:
        chosen = tuple(profile for profile in chosen if profile.name == name)
        if not chosen:
            guess = did_you_mean(name, names)
            raise UsageError(f"{file} has no profile {name[:60]!r}{guess}", hint=f"it has: {few_of(names)}")
    if len(chosen) > 1 and (cli.given.flags or cli.given.overrides):
        raise UsageError(
            f"-B and -X are for one profile, and {file} has {len(chosen)}",
            hint=f"choose one with --name: {few_of(names)}",
        )
    return chosen


def _written_sections(name: str, values: Mapping[str, str], path: Path, dry_run: bool) -> list[Part]:
    verb = "would be written" if dry_run else "written"
    return [f"profile {name} {verb} to {path}", ResultTable(("key", "value"), tuple(values.items())), ""]


def _next_commands(cli: CliContext, names: list[str]) -> NextCommands:
    return NextCommands([str(shell_command("doctor", program=cli.program_for(name))) for name in names])


def _warn_unless_in_use(cli: CliContext, name: str) -> None:
    """What a file or the environment says of the default profile may be stronger than the note."""
    current = open_profiles(GivenSettings(), cli.output.warn).current()
    if current.name != name:
        stronger = f"{current.name} (from {current.origin})" if current.name else "an address from the environment"
        cli.output.warn(f"profile {name} is not used by default: {stronger} overrides it")


def _settings(cli: CliContext, name: str | None) -> Settings:
    """As `--profile NAME` would have them."""
    return cli.settings_of(cli.given if name is None else replace(cli.given, profile=name, profile_origin="argument"))
