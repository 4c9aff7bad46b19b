"""Finding and reading configuration files, the note that names the current profile, and secrets.

A secret is fetched from where a profile names it: a file, the environment, systemd's credentials or a question on the
terminal. Who may read the files that hold secrets is looked at as well.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.config.keys import (
    KEY_BY_NAME,
    ClientFileKind,
    Layer,
    Rank,
    SourcedValue,
    ValueKind,
    from_one_source,
    is_profile_name,
    is_secret_variable,
    is_true,
)
from kafkakit.config.read.environment import Folders
from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError, RefusedError, UsageError

if TYPE_CHECKING:
    from kafkakit.config.client_properties import ClientFile, ClientProfile
    from kafkakit.config.yaml_text import ConfigFile, LocatedValue


CONFIG_LIMIT_BYTES = 1 << 20
SYSTEM_CONFIG = Path("/etc/kafkakit/config.yaml")
PROJECT_NAME = "kafkakit.yaml"
USER_FILE = "config.yaml"
CURRENT_PROFILE = "current-profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFilePlace:
    """One configuration file that exists, with its place in the order of precedence."""

    path: Path
    rank: Rank
    profile_of_file: str | None = None

    @property
    def label(self) -> str:
        """The origin in words, without the line."""
        return f"{self.rank.name.lower()} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The profile in use and where it was chosen; None when no profile is in use."""

    name: str | None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """All configuration files of this invocation, strongest first; each is read once, when needed."""

    sources: tuple[ConfigFilePlace, ...]
    user_file: Path
    warn: Callable[[str], None]
    _read: dict[Path, ConfigFile] = field(default_factory=dict)

    def read(self, source: ConfigFilePlace) -> ConfigFile:
        """Parse one file; its warnings are given once. `InputError` for one that another user owns or can write."""
        from kafkakit.adapters.files import read_input
        from kafkakit.config.yaml_text import parse_config, parse_profile

        if source.path not in self._read:
            data = read_input(source.path, CONFIG_LIMIT_BYTES, check=partial(refuse_unsafe, source.path))
            name = source.profile_of_file
            parsed = (
                parse_config(data, str(source.path)) if name is None else parse_profile(data, str(source.path), name)
            )
            for warning in parsed.warnings:
                self.warn(warning)
            self._read[source.path] = parsed
        return self._read[source.path]

    def profile_names(self) -> dict[str, ConfigFilePlace]:
        """Every profile's name with the strongest file that defines it, sorted by name."""
        found: dict[str, ConfigFilePlace] = {}
        for source in self.sources:
            names = [source.profile_of_file] if source.profile_of_file else list(self.read(source).profiles)
            for name in names:
                found.setdefault(name, source)
        return dict(sorted(found.items()))

    def secret_variables(self, target: Path, written: Collection[str]) -> set[str]:
        """The variables for secrets that profiles name, but those of the target that are to be written anew."""
        found: set[str] = set()
        named = {source.path: source for source in self.sources} | {
            target: ConfigFilePlace(path=target, rank=Rank.USER)
        }
        for source in named.values():
            profiles = self.read(source).profiles if _exists(source.path) else {}
            for profile, values in profiles.items():
                if source.path != target or profile not in written:
                    found |= {values[name].value for name in values if is_secret_variable(name)}
        return found

    def default_profile(self, rank: Rank) -> Choice:
        """The profile that the files of one rank name as the one to use."""
        for source in self.sources:
            if source.rank is rank and source.profile_of_file is None:
                located = self.read(source).default_profile
                if located is not None and located.value:
                    self._require_trust(source, located, "the default profile")
                    return Choice(name=located.value, origin=f"{source.label}:{located.line}")
        return Choice(name=None)

    def layers(self, choice: Choice) -> list[Layer]:
        """What each file holds of a profile, its connection from one kind of file alone; `UsageError` when none has it.

        `InputError` for a project file that sets a key of the connection in a folder that is not trusted.
        """
        from kafkakit.config.keys import did_you_mean

        profile, found = choice.name or "", list[Layer]()
        for source in self.sources:
            if source.profile_of_file in (None, profile) and profile in (parsed := self.read(source)).profiles:
                for name, located in parsed.profiles[profile].items():
                    if KEY_BY_NAME[name].is_connection:
                        self._require_trust(source, located, name)
                found.append(_layer(source, parsed.profiles[profile]))
        if not found:
            known = self.profile_names()
            is_default = not choice.origin.startswith(("flag ", "argument"))
            named = f"it is named by {choice.origin}; profile use NAME or --none changes it; " if is_default else ""
            raise UsageError(
                f"there is no profile {profile[:100]!r}{did_you_mean(profile, known)}",
                hint=f"{named}list them with: kafkakit profile list",
            )
        kept, left_out = from_one_source(found)
        if left_out:
            used = next(e for layer in kept for name, e in layer.entries.items() if KEY_BY_NAME[name].is_connection)
            self.warn(
                f"profile {profile} takes its address and credentials from one file, {used.origin}; not used: "
                f"{', '.join(entry.origin for entry in left_out)}"
            )
        return kept

    def _require_trust(self, source: ConfigFilePlace, located: LocatedValue, what: str) -> None:
        """Raise `InputError` where a project file, which a checkout may bring along, decides on the connection."""
        if source.rank is not Rank.PROJECT:
            return
        folder = source.path.parent.resolve()
        user = ConfigFilePlace(path=self.user_file, rank=Rank.USER)
        trusted = self.read(user).trusted_folders if _exists(self.user_file) else ()
        if not any(home_expanded(path, f"trusted_folders of {self.user_file}").resolve() == folder for path in trusted):
            raise InputError(
                f"{source.path}:{located.line}",
                f"sets {what}, which a project file may do only in a folder that you trust",
                hint=f"add trusted_folders: [{folder}] to {self.user_file}, or name the file with --config",
            )


def find_sources(folders: Folders, explicit: Path | None, system: Path = SYSTEM_CONFIG) -> tuple[ConfigFilePlace, ...]:
    """The files that exist, strongest first; an explicit file takes the place of those that are looked for."""
    found: list[ConfigFilePlace] = []
    if explicit is not None:
        found.append(ConfigFilePlace(path=explicit, rank=Rank.CONFIG))
    else:
        project = file_above(Path.cwd(), PROJECT_NAME)
        if project is not None:
            found.append(ConfigFilePlace(path=project, rank=Rank.PROJECT))
        if _exists(folders.config / USER_FILE):
            found.append(ConfigFilePlace(path=folders.config / USER_FILE, rank=Rank.USER))
    found += _profile_files(folders.config / "profiles.d")
    if explicit is None and _exists(system):
        found.append(ConfigFilePlace(path=system, rank=Rank.SYSTEM))
    return tuple(found)


def open_files(folders: Folders, explicit: Path | None, warn: Callable[[str], None]) -> ConfigFiles:
    """The configuration files of this invocation, none read yet."""
    return ConfigFiles(find_sources(folders, explicit), folders.config / USER_FILE, warn)


def write_profiles(
    files: ConfigFiles,
    target: ConfigFilePlace,
    profiles: Mapping[str, Mapping[str, str]],
    *,
    replace: bool,
    dry_run: bool,
) -> tuple[str, ...]:
    """Put profiles into a file, which is made (0600) if it is missing; gives the names of those that were there before.

    A file that exists keeps its owner, group and mode. `RefusedError` where they cannot be kept, for a name that is
    there already without `replace`, and for one that a file of the same or a higher rank defines: it would decide, or
    be mixed with the new one.
    """
    from kafkakit.adapters.files import read_input, write_file
    from kafkakit.config.yaml_text import parse_config, with_profile

    others = [source for source in files.sources if source.path != target.path]
    weaker: set[str] = set()
    for source in others:
        held = {source.profile_of_file} if source.profile_of_file else set(files.read(source).profiles)
        for name in sorted(held & profiles.keys()):
            if source.rank <= target.rank:
                raise RefusedError(
                    f"profile {name} is defined in {source.path}", hint="change it there, or choose a name"
                )
            weaker.add(name)
    path = target.path
    data = read_input(path, CONFIG_LIMIT_BYTES, check=partial(refuse_unsafe, path)) if _exists(path) else b""
    before = tuple(name for name in profiles if name in weaker or name in parse_config(data, str(path)).profiles)
    if before and not replace:
        raise RefusedError(
            f"profile {before[0]} exists already", hint="pass --replace to write it anew, or choose another name"
        )
    for name, values in profiles.items():
        data = with_profile(data, str(path), name, values)
    if len(data) > CONFIG_LIMIT_BYTES:
        raise InputError(str(path), f"would be larger than {CONFIG_LIMIT_BYTES} bytes")
    if not dry_run:
        with suppress(OSError):  # which the write explains
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(path, data, 0o600, keeps_access=True)
    return before


def read_current_profile(folders: Folders) -> Choice:
    """The profile that `kafkakit profile use` noted."""
    path = folders.state / CURRENT_PROFILE
    try:
        text = path.read_text(encoding="utf-8").strip()[:200]
    except (OSError, UnicodeDecodeError):
        return Choice(name=None)
    return Choice(name=text or None, origin=f"profile use ({path})")


def write_current_profile(folders: Folders, name: str | None) -> Path:
    """Note the profile to use from now on, or forget it."""
    from kafkakit.adapters.files import write_file

    path = folders.state / CURRENT_PROFILE
    if name is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(path, f"{name}\n".encode())
    return path


def read_properties_layer(path: Path, origin: str, warn: Callable[[str], None]) -> Layer:
    """Read a `--command-config` file; warns when it holds a secret that everyone may read."""
    from kafkakit.adapters.files import read_input
    from kafkakit.config.client_properties import parse_properties, translate_properties

    source = str(path)
    data = read_input(path, CONFIG_LIMIT_BYTES, check=partial(refuse_unsafe, path, any_owner=True))
    translated = translate_properties(parse_properties(data, source), source)
    for warning in translated.warnings:
        warn(warning)
    if any(isinstance(value, Secret) for value, _ in translated.values.values()):
        warn_if_readable_by_all(path, warn)
    return Layer(
        rank=Rank.PROPERTIES,
        entries={
            name: SourcedValue(value=value, origin=f"{origin} {source}:{line}", rank=Rank.PROPERTIES)
            for name, (value, line) in translated.values.items()
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChoice:
    """What to take of another client's file; `has_address` where the invocation itself names the cluster."""

    kind: ClientFileKind | None = None
    name: str | None = None
    listener: str | None = None
    has_address: bool = False


def read_other_client(path: Path, choice: ImportChoice, warn: Callable[[str], None]) -> ClientFile:
    """Read the configuration of another client as profiles; warns when it holds a secret that everyone may read."""
    from kafkakit.adapters.files import read_input
    from kafkakit.config.client_properties import read_client_file
    from kafkakit.kubernetes.objects import MAX_OBJECTS_BYTES
    from kafkakit.kubernetes.profiles import is_objects, read_profile

    kind, name = choice.kind, choice.name
    limit = MAX_OBJECTS_BYTES if kind is ClientFileKind.KUBERNETES else CONFIG_LIMIT_BYTES
    data = read_input(path, limit, check=partial(refuse_unsafe, path, any_owner=True))
    stem = path.name.lstrip(".").partition(".")[0]
    source = "stdin" if str(path) == "-" else str(path)
    if kind is ClientFileKind.KUBERNETES or (kind is None and is_objects(data)):
        found: ClientFile = read_profile(
            data, source, name=name, listener=choice.listener, has_address=choice.has_address
        )
    else:
        found = read_client_file(data, source, stem, kind=kind, name=name)
    if any(profile.secrets for profile in found.profiles):
        warn_if_readable_by_all(path, warn)
    return found


def with_own_variables(profiles: Iterable[ClientProfile], taken: Collection[str]) -> tuple[ClientProfile, ...]:
    """The profiles, no two of whose secrets share a variable, nor one with those that are taken.

    Names that differ in case or punctuation give one variable; the second has `_2` behind it. Variables that the file
    itself names stay.
    """
    given = tuple(profiles)
    used = set(taken)
    for profile in given:
        made = {f"{secret.key}_env" for secret in profile.secrets}
        used |= {value for name, (value, _) in profile.values.items() if is_secret_variable(name) and name not in made}
    found: list[ClientProfile] = []
    for profile in given:
        values, secrets = dict(profile.values), []
        for secret in profile.secrets:
            numbers = (f"{secret.variable}_{number}" for number in count(2))
            variable = next(name for name in chain((secret.variable,), numbers) if name not in used)
            used.add(variable)
            secrets.append(replace(secret, variable=variable))
            name = f"{secret.key}_env"
            values[name] = (variable, values[name][1])
        found.append(replace(profile, values=values, secrets=tuple(secrets)))
    return tuple(found)


def imported_layer(source: Path, profile: ClientProfile) -> Layer:
    """The values of a profile of another client's file, paths made absolute.

    A relative path is looked for beside the file, then in the working folder, where most clients look for it.
    """
    entries: dict[str, SourcedValue] = {}
    for name, (written, line) in profile.values.items():
        value = written
        if KEY_BY_NAME[name].kind is ValueKind.FILE:
            path = home_expanded(written, f"{name} (from {source}:{line})")
            beside = source.absolute().parent / path
            value = str(beside if _exists(beside) or not _exists(path) else path.absolute())
        entries[name] = SourcedValue(value=value, origin=f"{source}:{line}", rank=Rank.PROPERTIES)
    return Layer(rank=Rank.PROPERTIES, entries=entries)


def _layer(source: ConfigFilePlace, values: Mapping[str, LocatedValue]) -> Layer:
    entries: dict[str, SourcedValue] = {}
    for name, located in values.items():
        value = located.value
        if KEY_BY_NAME[name].kind is ValueKind.FILE and value:
            path = home_expanded(value, f"{name} (from {source.label}:{located.line})")
            value = str(source.path.absolute().parent / path)
        entries[name] = SourcedValue(value=value, origin=f"{source.label}:{located.line}", rank=source.rank)
    return Layer(rank=source.rank, entries=entries)


def home_expanded(written: str, where: str) -> Path:
    """A path with the home folder in place of `~` or `~USER`; `InputError` for a user who has none."""
    try:
        return Path(written).expanduser()
    except RuntimeError:
        user = written.partition("/")[0]
        problem = f"{user[:60]!r} stands for no home folder"
        raise InputError(where, problem, hint="write the path out, or ./~... for a name like this") from None


def file_above(start: Path, name: str) -> Path | None:
    """The file of a name in `start` or a folder above it in the same git tree; outside of one in `start` alone."""
    # Outside a git tree only the folder itself counts: a parent such as /tmp may belong to anyone.
    candidates = [start]
    for folder in (start, *start.parents):
        if _exists(folder / ".git"):
            candidates = [start, *(p for p in start.parents if p == folder or folder in p.parents)]
            break
    return next((folder / name for folder in candidates if _exists(folder / name)), None)


def _profile_files(folder: Path) -> list[ConfigFilePlace]:

    try:
        paths = sorted(folder.glob("*.yaml"))
    except OSError as error:
        raise InputError(str(folder), f"cannot be read: {error.strerror}") from None
    return [ConfigFilePlace(path=p, rank=Rank.USER, profile_of_file=p.stem) for p in paths if is_profile_name(p.stem)]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def refuse_unsafe(path: Path, status: os.stat_result, *, any_owner: bool = False) -> None:
    """Raise `InputError` for a file that another user than root owns or can write.

    With `any_owner` only the right to write counts: the file was named, and a service may own it.
    """
    mode = f"mode {stat.S_IMODE(status.st_mode):o}"
    if not any_owner and status.st_uid not in (0, os.geteuid()):
        raise InputError(
            str(path),
            f"belongs to another user (uid {status.st_uid}), who could redirect your credentials",
            hint="make a copy of your own and name it with --config",
        )
    # Where every user has a group of the same number, as Debian makes them, that group is the user alone.
    private = {0, os.getegid()} if os.getegid() == os.geteuid() else {0}
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid not in private):
        raise InputError(
            str(path),
            f"can be written by other users ({mode}), who could redirect your credentials",
            hint=f"chmod go-w {path}",
        )


def warn_if_readable_by_all(path: Path, warn: Callable[[str], None]) -> None:
    """Warn about a secret's file whose mode lets every user of the machine read it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        warn(f"{path} holds a secret and every user can read it (mode {mode & 0o777:o}); chmod 600 it")


SECRET_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReader:
    """What is needed to fetch a secret; `input_allowed` False means that there is no terminal to prompt on."""

    environment: Mapping[str, str]
    warn: Callable[[str], None]
    input_allowed: bool

    def fetch(self, name: str, entries: Mapping[str, SourcedValue]) -> Secret | None:
        """The secret of this name by the one way that `entries` holds, None when there is none."""
        direct = entries.get(name)
        if direct is not None and isinstance(direct.value, Secret):
            return direct.value
        for way, read in (
            ("file", self._from_file),
            ("env", self._from_environment),
            ("credential", self._from_credentials),
            ("prompt", self._from_terminal),
        ):
            entry = entries.get(f"{name}_{way}")
            if entry is not None:
                return read(name, str(entry.value), entry.origin)
        return None

    def _from_file(self, name: str, value: str, origin: str) -> Secret:
        from kafkakit.adapters.files import read_input

        path = Path(value)
        try:
            text = read_input(path, SECRET_LIMIT_BYTES).decode()
        except InputError as error:
            raise InputError(error.source, error.problem, hint=f"{name}_file is named by {origin}") from None
        except UnicodeDecodeError:
            raise InputError(value, f"not valid UTF-8 text ({name} from {origin})") from None
        warn_if_readable_by_all(path, self.warn)
        secret = text.removesuffix("\n").removesuffix("\r")
        if not secret:
            raise InputError(value, f"the file is empty, so there is no {name}")
        return Secret(secret)

    def _from_environment(self, name: str, value: str, origin: str) -> Secret:
        secret = self.environment.get(value)
        if not secret:
            raise UsageError(f"the environment variable {value} with {name} is not set", hint=f"named in {origin}")
        return Secret(secret)

    def _from_credentials(self, name: str, value: str, origin: str) -> Secret:
        folder = self.environment.get("CREDENTIALS_DIRECTORY")
        if not folder:
            raise UsageError(
                f"{name} is a systemd credential, but CREDENTIALS_DIRECTORY is not set",
                hint=f"run it from a unit with LoadCredential={value}:PATH",
            )
        if not is_profile_name(value):
            raise UsageError(f"{value[:60]!r} (from {origin}) cannot name a credential")
        return self._from_file(name, str(Path(folder) / value), origin)

    def _from_terminal(self, name: str, value: str, origin: str) -> Secret | None:
        if not is_true(value):
            return None
        if not self.input_allowed:
            raise UsageError(
                f"{name} must be typed in (from {origin}), and there is no terminal to prompt on",
                hint=f"use {name}_file, {name}_env or {name}_credential",
            )
        from getpass import getpass

        secret = getpass(f"{name}: ")
        if not secret:
            raise UsageError(f"no {name} was typed")
        return Secret(secret)
