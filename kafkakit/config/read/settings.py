"""The only reader of configuration files and environment: one frozen `Settings`, each value with its origin.

What one invocation itself holds of the configuration is the command line, `--command-config` and the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kafkakit.config.keys import (
    KEY_BY_NAME,
    KEY_PASSWORD,
    KEYS,
    PROFILE_NAME_HINT,
    SASL_PASSWORD,
    VARIABLES,
    ControlStoreKind,
    Layer,
    Rank,
    SourcedValue,
    ValueKind,
    defaults,
    is_profile_name,
    is_true,
    merge,
    nearest_name,
    parse_overrides,
)
from kafkakit.config.read.environment import Folders, find_folders, read_environment
from kafkakit.config.read.files import (
    Choice,
    ConfigFilePlace,
    ConfigFiles,
    SecretReader,
    home_expanded,
    open_files,
    read_current_profile,
    read_properties_layer,
    with_own_variables,
    write_current_profile,
    write_profiles,
)
from kafkakit.config.security import Mechanism, Protocol, Secret, Security, parse_addresses, problems_of
from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkakit.config.client_properties import ClientProfile


# Variables of kafkakit's tests.
_FOREIGN_VARIABLES = frozenset({"KAFKAKIT_EXAMPLES", "KAFKAKIT_REQUIRE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSettings:
    """What the command line holds: values by key with their origin, `-X` items, and the files and profile to use."""

    flags: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    profile: str | None = None
    profile_origin: str = ""
    config: Path | None = None
    command_config: Path | None = None
    without_profile: bool = False
    without_address: bool = False

    def for_profile(self, name: str) -> Self:
        """The invocation for the cluster of another profile, without the address that this one names.

        `UsageError` for an empty name, which would mean the default profile.
        """
        if not name:
            raise UsageError("the name of a profile is empty", hint="list them with: kafkakit profile list")
        return replace(self, profile=name, profile_origin="argument", without_address=True)

    def for_address(self, servers: str, command_config: Path | None, origin: str) -> Self:
        """The invocation for a cluster that no profile names, with its own file of client settings."""
        flags = {**self.flags, "bootstrap_server": (servers, origin)}
        return replace(
            self, profile=None, without_profile=True, without_address=False, flags=flags, command_config=command_config
        )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The merged configuration; secrets are fetched when `security` is first used."""

    entries: Mapping[str, SourcedValue]
    choice: Choice
    folders: Folders
    secrets: SecretReader

    @property
    def profile(self) -> str | None:
        """The profile in use."""
        return self.choice.name

    @property
    def cluster_id(self) -> str | None:
        """The one cluster that may be talked to, None for any."""
        return self._text("cluster_id")

    @property
    def bootstrap_servers(self) -> str:
        """Kafka addresses with commas between, empty when none is configured."""
        return ",".join(part.strip() for part in (self._text("bootstrap_server") or "").split(",") if part.strip())

    @property
    def required_address(self) -> str:
        """Kafka addresses with commas between; `UsageError` when none is configured."""
        if not self.bootstrap_servers:
            raise UsageError(
                "no Kafka address is configured",
                hint="pass --bootstrap-server HOST:PORT, --profile NAME (listed by `kafkakit profile list`), "
                "--command-config FILE with bootstrap.servers or -X bootstrap_server=HOST:PORT; or set "
                "KAFKAKIT_BOOTSTRAP_SERVER, KAFKAKIT_PROFILE, TOPICMAPPR_KAFKA_ADDR (topicmappr, as --kafka-addr), or "
                "a default with `kafkakit profile use NAME`; --zk-addr names only ZooKeeper, not a Kafka cluster",
            )
        return self.bootstrap_servers

    @property
    def request_timeout_s(self) -> float:
        """Time limit of one request to the cluster, in seconds."""
        return parse_duration(self._text("request_timeout") or "30s", "request_timeout")

    def within(self, timeout_s: float) -> Self:
        """These settings with requests that take no longer than that."""
        limit_s = min(timeout_s, self.request_timeout_s)
        limit = SourcedValue(value=f"{limit_s:g}s", origin="limit", rank=Rank.FLAG)
        return replace(self, entries={**self.entries, "request_timeout": limit})

    @property
    def zookeeper_prefix(self) -> str:
        """The path under which Kafka lives in ZooKeeper, empty for its root."""
        return self._text("zookeeper.prefix") or ""

    @property
    def zookeeper_addr(self) -> str | None:
        """ZooKeeper addresses with commas between."""
        return self._text("zookeeper.addr")

    def zookeeper_for(self, why: str) -> str:
        """ZooKeeper addresses with commas between; `UsageError`, which says why they are needed, for none."""
        if not self.zookeeper_addr:
            raise UsageError(
                f"{why}, but no ZooKeeper address is configured",
                hint="set zookeeper.addr in the profile, or KAFKAKIT_ZOOKEEPER_ADDR",
            )
        return self.zookeeper_addr

    def znodes_of_sizes(self, addresses: str | None) -> tuple[str, str]:
        """The address of kafka-kit's znodes of sizes, and the name of what gave it."""
        if addresses:
            return addresses, "--zk-addr"
        if self.zookeeper_addr:
            return self.zookeeper_addr.partition("/")[0], "zookeeper.addr"
        return "localhost:2181", "--zk-addr or zookeeper.addr"

    @property
    def control_store(self) -> ControlStoreKind:
        """Where the lease and control requests are kept."""
        return ControlStoreKind(self._text("control_store") or ControlStoreKind.FILE)

    @property
    def ignored_findings(self) -> tuple[str, ...]:
        """Kinds of findings of `status`, each with a glob of names, that are counted and not shown."""
        return tuple(part.strip() for part in (self._text("status.ignore") or "").split(",") if part.strip())

    @property
    def lag_limits(self) -> Path | None:
        """The file with limits of groups' lag that `status` judges by; `UsageError` for one that cannot be read."""
        path = self._file("status.limits")
        return None if path is None else Path(path)

    @property
    def config_dir(self) -> Path:
        """Folder of `config.yaml` and `profiles.d`."""
        return self.folders.config

    @property
    def state_dir(self) -> Path:
        """Folder of journals, crash reports and the current profile's name."""
        return self.folders.state

    @property
    def cache_dir(self) -> Path:
        """Folder of what can be fetched again."""
        return self.folders.cache

    @property
    def runtime_dir(self) -> Path:
        """Folder of locks and sockets."""
        return self.folders.runtime

    @cached_property
    def security(self) -> Security:
        """How to connect; fetches the secrets, prompting on the terminal where a profile is set so.

        Raises `UsageError` when parts do not fit together or a named file is missing.
        """
        protocol = Protocol(self._text("security.protocol") or "PLAINTEXT")
        mechanism = self._text("security.sasl.mechanism")
        security = Security(
            protocol=protocol,
            ca_file=self._file("security.tls.ca_file"),
            cert_file=self._file("security.tls.cert_file"),
            key_file=self._file("security.tls.key_file"),
            key_password=self.secrets.fetch(KEY_PASSWORD, self.entries) if protocol.uses_tls else None,
            check_hostname=is_true(self._text("security.tls.check_hostname") or "true"),
            sasl_mechanism=None if mechanism is None else Mechanism(mechanism),
            username=self._text("security.sasl.username"),
            password=self.secrets.fetch(SASL_PASSWORD, self.entries) if protocol.uses_sasl else None,
        )
        problems = problems_of(security)
        if problems:
            where = f" of profile {self.profile}" if self.profile else ""
            raise UsageError(f"the security settings{where} do not fit together: {'; '.join(problems)}")
        return security

    def origin_of(self, name: str) -> str | None:
        """Where a key's value comes from, in words; None when it has no value."""
        entry = self.entries.get(name)
        return None if entry is None else entry.origin

    def known_secrets(self) -> tuple[Secret, ...]:
        """The secrets fetched so far, for masking them in a report."""
        fetched = [entry.value for entry in self.entries.values() if isinstance(entry.value, Secret)]
        security = self.__dict__.get("security")
        if isinstance(security, Security):
            fetched += [s for s in (security.password, security.key_password) if s is not None]
        return tuple(dict.fromkeys(fetched))

    def _text(self, name: str) -> str | None:
        entry = self.entries.get(name)
        return None if entry is None or isinstance(entry.value, Secret) else entry.value

    def _file(self, name: str) -> str | None:
        path = self._text(name)
        if path is not None and not os.access(path, os.R_OK):
            problem = "cannot be read" if os.path.exists(path) else "does not exist"
            raise UsageError(f"{name} {path} {problem}", hint=f"it is named by {self.origin_of(name)}")
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """The profiles that can be chosen, without merging any of them."""

    given: GivenSettings
    folders: Folders
    files: ConfigFiles

    def current(self) -> Choice:
        """The profile in use."""
        layers = invocation_layers(self.given, read_environment(), self.files.warn)
        return choose_profile(self.given, self.files, self.folders, has_address=names_address(layers))

    def forget(self, names: Collection[str]) -> str | None:
        """Clear the note of `profile use` where it names one of these; gives the name."""
        noted = read_current_profile(self.folders).name
        if noted not in names:
            return None
        self.use(None)
        return noted

    def use(self, name: str | None) -> Path:
        """Note the profile to use from now on; gives the file that holds the note."""
        return write_current_profile(self.folders, name)

    @property
    def target(self) -> ConfigFilePlace:
        """The file that new profiles are written to: `--config`, else the user's."""
        if self.given.config is not None:
            return ConfigFilePlace(path=self.given.config, rank=Rank.CONFIG)
        return ConfigFilePlace(path=self.files.user_file, rank=Rank.USER)

    def with_own_variables(self, profiles: Sequence[ClientProfile]) -> tuple[ClientProfile, ...]:
        """`with_own_variables` for profiles that are to be written into the target."""
        taken = self.files.secret_variables(self.target.path, [profile.name for profile in profiles])
        return with_own_variables(profiles, taken)

    def write(self, profiles: Mapping[str, Mapping[str, str]], *, replace: bool, dry_run: bool) -> tuple[str, ...]:
        """`write_profiles` into the target, while no other process of this user does."""
        from kafkakit.adapters.host import this_holder
        from kafkakit.adapters.lock import FileLock

        if dry_run:
            return write_profiles(self.files, self.target, profiles, replace=replace, dry_run=True)
        who = str(this_holder("profile"))
        with FileLock(self.folders.state / "profiles.lock", f"the profiles in {self.target.path}", who):
            return write_profiles(self.files, self.target, profiles, replace=replace, dry_run=False)


def new_profile_values(
    given: GivenSettings, name: str, imported: Layer | None, warn: Callable[[str], None]
) -> dict[str, str]:
    """The keys of a profile to be written: `-B`, `-X`, then those of an imported file; paths are absolute.

    What the environment sets is no part of it. Raises `UsageError` for values of the wrong shape, and for a profile
    that names no cluster or whose parts do not fit together.
    """
    if not is_profile_name(name):
        raise UsageError(f"{name[:60]!r} cannot name a profile", hint=PROFILE_NAME_HINT)
    layers = invocation_layers(replace(given, command_config=None), {}, warn)
    entries = merge([*layers, *([imported] if imported else ())])
    values = {key: str(entry.value) for key, entry in entries.items()}
    for key, value in values.items():
        if KEY_BY_NAME[key].kind is ValueKind.FILE:
            values[key] = str(home_expanded(value, f"{key} (from {entries[key].origin})").absolute())
    parse_addresses(values.get("bootstrap_server", ""))
    _require_usable(name, values)
    return values


def _require_usable(name: str, values: Mapping[str, str]) -> None:
    """Raise `UsageError` for a profile that names no cluster, or whose security settings do not fit together."""
    if not values.get("bootstrap_server") and not values.get("zookeeper.addr"):
        raise UsageError(f"profile {name} names no address of a cluster", hint="add -B HOST:PORT,...")
    has_secret = {KEY_BY_NAME[key].secret_of for key in values}
    mechanism = values.get("security.sasl.mechanism")
    security = Security(
        protocol=Protocol(values.get("security.protocol", Protocol.PLAINTEXT)),
        ca_file=values.get("security.tls.ca_file"),
        cert_file=values.get("security.tls.cert_file"),
        key_file=values.get("security.tls.key_file"),
        sasl_mechanism=None if mechanism is None else Mechanism(mechanism),
        username=values.get("security.sasl.username"),
        password=Secret("") if "security.sasl.password" in has_secret else None,
    )
    problems = problems_of(security)
    if problems:
        hint = "add what is missing with -X KEY=VALUE; -X list names the keys"
        raise UsageError(
            f"the security settings of profile {name} do not fit together: {'; '.join(problems)}", hint=hint
        )


def open_profiles(given: GivenSettings, warn: Callable[[str], None]) -> Profiles:
    """Find the configuration files of this invocation; they are read when needed."""
    folders = find_folders(read_environment())
    return Profiles(given=given, folders=folders, files=open_files(folders, given.config, warn))


def choose_profile(given: GivenSettings, files: ConfigFiles, folders: Folders, *, has_address: bool) -> Choice:
    """The profile to use, or none; an address that is given takes the place of a default profile as a whole.

    The flag or its variable come first, then the file of `--config` or a trusted project's, the note of
    `profile use`, the user's file and the system's.
    """
    if given.without_profile:
        return Choice(name=None)
    if given.profile:
        origin = "env KAFKAKIT_PROFILE" if given.profile_origin == "env" else given.profile_origin
        return Choice(name=given.profile, origin=origin)
    if has_address:
        return Choice(name=None)
    for choice in (
        files.default_profile(Rank.CONFIG),
        files.default_profile(Rank.PROJECT),
        read_current_profile(folders),
        files.default_profile(Rank.USER),
        files.default_profile(Rank.SYSTEM),
    ):
        if choice.name is not None:
            return choice
    return Choice(name=None)


def load_settings(
    given: GivenSettings, environment: Mapping[str, str], *, warn: Callable[[str], None], input_allowed: bool
) -> Settings:
    """Read and merge everything: flag, `-X`, `--command-config`, environment, files, default.

    Of the files, `--config` comes first, then project, user and system.

    Raises `UsageError` and `InputError` with the origin of what is wrong; unknown keys in files and
    unknown variables are warned about.
    """
    folders = find_folders(environment)
    files = open_files(folders, given.config, warn)
    layers = invocation_layers(given, environment, warn)
    choice = choose_profile(given, files, folders, has_address=names_address(layers))
    layers += [*(files.layers(choice) if choice.name is not None else ()), defaults()]
    _warn_about_unknown_variables(environment, warn)
    secrets = SecretReader(environment=environment, warn=warn, input_allowed=input_allowed)
    return Settings(entries=merge(layers), choice=choice, folders=folders, secrets=secrets)


def _warn_about_unknown_variables(environment: Mapping[str, str], warn: Callable[[str], None]) -> None:
    for name in sorted(environment):
        if name.startswith("KAFKAKIT_") and name not in VARIABLES and name not in _FOREIGN_VARIABLES:
            # The common prefix makes any two of them alike.
            guess = nearest_name(name, VARIABLES, closeness=0.8)
            warn(f"the environment variable {name} is not known{f'; did you mean {guess}?' if guess else ''}")


def key_rows() -> tuple[tuple[str, str, str], ...]:
    """Name, default and description of every key that `-X` takes."""
    return tuple((key.name, key.default or "", key.about) for key in KEYS if key.kind is not ValueKind.SECRET)


def masked_value(entry: SourcedValue, name: str) -> str:
    """A value as it may be shown; `***` for a secret."""
    return str(entry.value) if KEY_BY_NAME[name].kind is not ValueKind.SECRET else str(Secret(""))


_ADDRESS = "bootstrap_server"


def invocation_layers(given: GivenSettings, environment: Mapping[str, str], warn: Callable[[str], None]) -> list[Layer]:
    """What the command line, the file of `--command-config` and the environment hold."""
    layers = [
        _layer(Rank.FLAG, given.flags),
        _layer(Rank.OVERRIDE, {name: (value, f"-X {name}") for name, value in parse_overrides(given.overrides)}),
        _environment_layer(environment),
    ]
    if given.command_config is not None:
        layers.append(read_properties_layer(given.command_config, "--command-config", warn))
    return [_without_address(layer) for layer in layers] if given.without_address else layers


def names_address(layers: Iterable[Layer]) -> bool:
    """True when one of the layers says which Kafka cluster is meant."""
    return any(layer.entries[name].value for layer in layers for name in layer.entries if name == _ADDRESS)


def _without_address(layer: Layer) -> Layer:
    kept = {name: entry for name, entry in layer.entries.items() if name != _ADDRESS}
    return Layer(rank=layer.rank, entries=kept)


def _layer(rank: Rank, values: Mapping[str, tuple[str, str]]) -> Layer:
    entries = {name: SourcedValue(value=value, origin=origin, rank=rank) for name, (value, origin) in values.items()}
    return Layer(rank=rank, entries=entries)


def _environment_layer(environment: Mapping[str, str]) -> Layer:
    entries: dict[str, SourcedValue] = {}
    for key in KEYS:
        for variable in key.env:
            value = environment.get(variable, "")
            if value and key.name not in entries:
                shown = Secret(value) if key.kind is ValueKind.SECRET else value
                entries[key.name] = SourcedValue(value=shown, origin=f"env {variable}", rank=Rank.ENVIRONMENT)
    return Layer(rank=Rank.ENVIRONMENT, entries=entries)
