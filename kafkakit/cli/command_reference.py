"""Every command and option as values and as JSON (`kafkakit --help-json`)."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import typer

from kafkakit.cli.command_classes import shared_option_names
from kafkakit.core.errors import EXIT_CODE_MEANING


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEntry:
    """One option or argument as help shows it."""

    names: tuple[str, ...]
    value: str | None
    help: str
    env: tuple[str, ...]
    default: str | None
    required: bool
    repeatable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEntry:
    """One command: its words after the program's name, its help, and its own parameters."""

    words: str
    help: str
    arguments: tuple[OptionEntry, ...]
    options: tuple[OptionEntry, ...]


def commands(root: Any) -> tuple[CommandEntry, ...]:
    """All commands of the root in the order of the table of groups; imports every group."""
    found: list[CommandEntry] = []
    for name, command in root.loaded().items():
        found += _walk(command, name)
    return tuple(found)


def root_options(root: Any) -> tuple[OptionEntry, ...]:
    """The options of the program itself, shared ones included."""
    return tuple(_entry(param) for param in root.params if not param.hidden)


def reference_json(root: Any) -> str:
    """The whole reference as one JSON object with a versioned header."""
    body = {
        "kafkakit": {"command": "--help-json", "schema": 1},
        "commands": [asdict(command) for command in commands(root)],
        "shared_options": [asdict(option) for option in root_options(root)],
        "exit_codes": {str(int(code)): meaning for code, meaning in EXIT_CODE_MEANING.items()},
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _walk(command: Any, words: str) -> Iterator[CommandEntry]:
    children = getattr(command, "commands", None)
    if children is not None:
        for name in sorted(children):
            yield from _walk(children[name], f"{words} {name}")
        return
    if command.hidden:
        return
    shared = shared_option_names(command)
    own = [param for param in command.params if param.name not in shared and not param.hidden]
    yield CommandEntry(
        words=words,
        help=(command.help or "").replace("\b\n", "").strip(),
        arguments=tuple(_entry(param) for param in own if param.param_type_name == "argument"),
        options=tuple(_entry(param) for param in own if param.param_type_name == "option"),
    )


def _entry(param: Any) -> OptionEntry:
    env = param.envvar or ()
    is_flag = getattr(param, "is_flag", False)
    default = param.default
    # Only asked for a token normaliser, which kafkakit does not have.
    context: Any = typer.Context(typer.core.TyperCommand("reference"))
    shown = None if callable(default) or default in (None, False, (), []) or is_flag else str(default)
    return OptionEntry(
        names=(*param.opts, *param.secondary_opts)
        if param.param_type_name == "option"
        else (param.metavar or param.name,),
        value=None if is_flag else param.metavar or param.display_type(context).strip("<>"),
        help=param.help or "",
        env=(env,) if isinstance(env, str) else tuple(env),
        default=shown,
        required=bool(param.required),
        repeatable=bool(param.multiple or param.nargs == -1),
    )
