"""Shell completion of names, and how topics and brokers are named on every command line.

Completion never fails, never prompts and never takes longer than a second. There are two notations, one for topics and
one for brokers, each with its completion.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from time import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from kafkakit.core.errors import DeadlineReached, KafkakitError

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.config.read.settings import Settings
    from kafkakit.rules.config_defs import ConfigDef


BASH_SCRIPT = """\
# bash takes KEY=VALUE apart at the =, as three words, and puts a blank behind what it completed.
_kafkakit_completion() {
    local IFS=$'\\n' word words=()
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 0 && ( $word == = || ${words[-1]} == ?*= ) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    COMPREPLY=( $( env COMP_WORDS="${words[*]}" COMP_CWORD=$(( ${#words[@]} - 1 )) \\
                   _KAFKAKIT_COMPLETE=complete_bash $1 ) )
    if [[ ${words[-1]} == *=* ]]; then COMPREPLY=( "${COMPREPLY[@]##*=}" ); fi
    if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
    return 0
}

complete -o default -F _kafkakit_completion kafkakit
"""


def completion_script(root: Any, shell: str) -> str:
    """The script of a shell, as typer writes it for the program's root command; for bash it is `BASH_SCRIPT`."""
    if shell == "bash":
        return BASH_SCRIPT
    from io import StringIO

    earlier, written = os.environ.get(COMPLETE_VARIABLE), StringIO()
    os.environ[COMPLETE_VARIABLE] = f"source_{shell}"
    try:
        with redirect_stdout(written), suppress(SystemExit):
            root.main(args=[], prog_name="kafkakit")
    finally:
        os.environ.pop(COMPLETE_VARIABLE)
        if earlier is not None:
            os.environ[COMPLETE_VARIABLE] = earlier
    return written.getvalue()


COMPLETE_VARIABLE = "_KAFKAKIT_COMPLETE"
ReadNames = Callable[[typer.Context, "CliContext", "Settings"], list[str]]
TOPICS = "topics"
TOPICS_FRESH_S = 60.0
LIMIT_S = 1.0
CACHE_LIMIT_BYTES = 64 << 20


def complete_profile_names(incomplete: str) -> list[str]:
    """Profile names that begin with what is typed."""
    try:
        from kafkakit.config.read.settings import GivenSettings, open_profiles

        names = open_profiles(GivenSettings(), lambda _: None).files.profile_names()
    except Exception:  # the shell shows what a completion prints: no names instead of a traceback
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topic names of the configured cluster that begin with what is typed; in a list with commas, its last part.

    Names are kept for a minute, so that the second key press is instant.
    """
    return complete_names(ctx, TOPICS, incomplete, _read_topics)


def complete_broker_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """The ids of brokers that begin with what is typed; in a list with commas, its last part."""
    return complete_names(ctx, "brokers", incomplete, _read_brokers)


def complete_group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of consumer groups that begin with what is typed."""
    return complete_names(ctx, "groups", incomplete, _read_groups)


def complete_config_keys(incomplete: str) -> list[str]:
    """kafkakit's own keys that begin with what is typed, each with its =; none of a secret, which `-X` refuses."""
    from kafkakit.config.keys import KEYS, ValueKind

    names = (key.name for key in KEYS if key.kind is not ValueKind.SECRET)
    return sorted(f"{name}=" for name in names if name.startswith(incomplete))


def complete_topic_settings(incomplete: str) -> list[str]:
    """Settings of topics that begin with what is typed, each with its =; after it, the values that Kafka takes."""
    return _complete_settings(incomplete, _definitions(of_brokers=False))


def complete_settings(incomplete: str) -> list[str]:
    """Settings of topics and brokers that begin with what is typed, each with its =; after it, their values."""
    return _complete_settings(incomplete, _definitions())


def complete_setting_keys(incomplete: str) -> list[str]:
    """The keys of settings of topics and brokers that begin with what is typed."""
    return sorted({found.name for found in _definitions() if found.name.startswith(incomplete)})


def complete_names(ctx: typer.Context, what: str, incomplete: str, read: ReadNames) -> list[str]:
    """The names of a kind that begin with what is typed; in a list with commas, with its last part.

    `read` gives them all, from the configured cluster; they are kept for a minute under `what`.
    """
    try:
        with _limit(LIMIT_S):
            names = _names(ctx, what, read)
    except (Exception, KeyboardInterrupt):
        return []
    done, comma, part = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in names if name.startswith(part) and name.isprintable()]


def _complete_settings(incomplete: str, known: "list[ConfigDef]") -> list[str]:
    key, is_value, begun = incomplete.partition("=")
    if not is_value:
        return sorted({f"{found.name}=" for found in known if found.name.startswith(key)})
    values = {value for found in known if found.name == key for value in found.values}
    return [f"{key}={value}" for value in sorted(values) if value.startswith(begun)]


def _definitions(*, of_brokers: bool = True) -> "list[ConfigDef]":
    """What the newest version of Kafka knows; nothing is asked of a cluster."""
    from kafkakit.rules.config_defs import NEWEST, config_table

    table = config_table(NEWEST)
    found = [*table.topic.values(), *(table.broker.values() if of_brokers else ())]
    return [each for each in found if not each.internal]


def _names(ctx: typer.Context, what: str, read: ReadNames) -> list[str]:
    from kafkakit.cli.context import cli_context
    from kafkakit.config.read.environment import read_environment
    from kafkakit.config.read.settings import load_settings

    cli = cli_context(ctx)
    settings = load_settings(cli.given, read_environment(), warn=lambda _: None, input_allowed=False)
    place = "" if what == TOPICS else ctx.params.get("server") or ctx.params.get("zk_addr") or ""
    if not settings.bootstrap_servers and not place:
        return []
    cache = _cache_file(settings, what, f"{place}\n{ctx.params.get('zk_tags_prefix')}" if place else "")
    cached = _read_cache(cache)
    if cached is not None:
        return cached
    names = read(ctx, cli, settings)
    # Names that cannot be cached are good for this key press all the same.
    with suppress(OSError, KafkakitError):
        _write_cache(cache, names)
    return names


def _read_topics(ctx: typer.Context, cli: "CliContext", settings: "Settings") -> list[str]:
    from kafkakit.cli.session import open_session

    with open_session(cli, read_only=True, settings=settings) as session:
        return sorted(session.admin.topic_names())


def _read_brokers(ctx: typer.Context, cli: "CliContext", settings: "Settings") -> list[str]:
    from kafkakit.cli.session import open_session

    with open_session(cli, read_only=True, settings=settings) as session:
        return [str(broker.id) for broker in session.admin.cluster().brokers]


def _read_groups(ctx: typer.Context, cli: "CliContext", settings: "Settings") -> list[str]:
    from kafkakit.cli.session import open_session

    with open_session(cli, read_only=True, settings=settings) as session:
        return sorted(listing.group for listing in session.groups.groups())


def _cache_file(settings: "Settings", what: str, place: str) -> Path:
    from hashlib import sha256

    identity = f"{settings.bootstrap_servers}\n{settings.profile}\n{settings.security.username}{place}"
    return settings.cache_dir / what / f"{sha256(identity.encode()).hexdigest()[:32]}.json"


def _read_cache(path: Path) -> list[str] | None:
    try:
        status = path.stat()
        age_s = time() - status.st_mtime
        if not 0 <= age_s <= TOPICS_FRESH_S or status.st_size > CACHE_LIMIT_BYTES or status.st_uid != os.getuid():
            return None
        names = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return [str(name) for name in names] if isinstance(names, list) else None


def _write_cache(path: Path, names: list[str]) -> None:
    from kafkakit.wiring import write_file

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_file(path, json.dumps(names).encode(), 0o600)


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        # Not an Exception, which a client that retries would swallow.
        raise DeadlineReached

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


TOPICS_METAVAR, BROKERS = "TOPICS", "BROKERS"
GRAMMAR: Mapping[str, str] = {
    TOPICS_METAVAR: "names or regular expressions (RE2, as in Go), comma separated, or 'where QUERY'",
    BROKERS: "ids, comma separated, in-use or -1 (brokers in use), all or -2 (all brokers), or 'where QUERY'",
}
"""What help prints below the options of a command that takes them."""

TOPIC_CHOICE: Mapping[str, Any] = {"metavar": TOPICS_METAVAR, "autocompletion": complete_topic_names}
BROKER_CHOICE: Mapping[str, Any] = {"metavar": BROKERS, "autocompletion": complete_broker_ids}
BROKER_IDS: Mapping[str, Any] = {"metavar": "ID,...", "autocompletion": complete_broker_ids}
"""Details of `typer.Option` and `option` for a choice of topics, of brokers, and of brokers by their ids alone."""

TOPIC_NAME: Mapping[str, Any] = {"metavar": "TOPIC", "autocompletion": complete_topic_names}
BROKER_ID: Mapping[str, Any] = {"metavar": "ID", "autocompletion": complete_broker_ids}
GROUP_NAME: Mapping[str, Any] = {"metavar": "GROUP", "autocompletion": complete_group_names}
"""Details of `typer.Option` and `option` for one topic, one broker and one group."""

TOPIC_SETTING: Mapping[str, Any] = {
    "metavar": "KEY=VALUE",
    "help": "A setting of the topic. Repeatable.",
    "autocompletion": complete_topic_settings,
}
"""Details of `option` for the settings of a new topic."""
