"""What the command line says about commands that messages print: its own parsers read them, and nothing runs.

`makers` lists every place in the source that makes a command, `refusal_of` parses one, and `parse_when_made` has all
parsed that are made while tests run.
"""

import ast
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

import kafkakit
from kafkakit.cli.context import CliContext
from kafkakit.cli.root import build_root
from kafkakit.core.text import ShellCommand

SOURCES = Path(kafkakit.__file__).parent
_root: Any = cache(build_root)


def refusal_of(words: Sequence[str]) -> str:
    """Why the command line takes no such words (those after the program's name); empty where it takes them."""
    return _refusal(tuple(words))


@cache
def _refusal(words: tuple[str, ...]) -> str:
    try:
        _parse(_root(), "kafkakit", list(words), None)
    except typer.Exit:
        return ""
    except typer.TyperException as error:
        return str(error.format_message())
    return ""


def _parse(command: Any, name: str, words: list[str], parent: Any) -> None:
    given = {"obj": CliContext()} if parent is None else {}
    with command.make_context(name, words, parent=parent, **given) as ctx:
        if getattr(command, "commands", None) is not None:
            _parse(*_resolved(command, ctx), ctx)


def _resolved(group: Any, ctx: Any) -> tuple[Any, str, list[str]]:
    rest = [*ctx._protected_args, *ctx.args]
    if not rest:
        raise typer.BadParameter(f"{group.name} is a group: a command is missing")
    name, command, left = group.resolve_command(ctx, rest)
    return command, name, left


def refusal_of_line(line: str) -> str:
    """The same for a line of a shell that begins with `kafkakit`."""
    program, *words = shlex.split(line)
    assert program == "kafkakit", line
    return refusal_of(words)


def require_parsed(command: ShellCommand) -> None:
    """`AssertionError` for a command that the command line refuses."""
    refusal = refusal_of(command.words) or refusal_of_line(str(command))
    assert not refusal, f"{command}: {refusal}"


@dataclass(frozen=True, slots=True)
class Maker:
    """A place in the source that makes a command: the words and the options that it names there."""

    place: str
    verb: str | None
    options: tuple[str, ...]


def makers(root: Path = SOURCES) -> Iterator[Maker]:
    """Every call of `shell_command` or `ShellCommand` in the source; `verb` is None where it is computed."""
    for path in sorted(root.rglob("*.py")):
        text = path.read_text("utf-8")
        if "ShellCommand" not in text and "core.text import" not in text:
            continue
        tree = ast.parse(text)
        imported = {
            alias.asname or alias.name: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "kafkakit.core.text"
            for alias in node.names
            if alias.name in ("shell_command", "ShellCommand")
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported:
                yield _maker(f"{path.relative_to(root)}:{node.lineno}", node)


def _maker(place: str, call: ast.Call) -> Maker:
    first = call.args[0] if call.args else None
    verb = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    named = (k.arg for k in call.keywords if k.arg not in (None, "program"))
    return Maker(place, verb, tuple(f"--{name.rstrip('_').replace('_', '-')}" for name in named if name))


def options_of(verb: str) -> frozenset[str] | None:
    """The options of a command by its words; None for words that are not a command."""
    found: Any = None
    for word in verb.split():
        commands = _root().loaded() if found is None else getattr(found, "commands", {})
        found = commands.get(word)
        if found is None:
            return None
    if getattr(found, "commands", None) is not None:
        return None
    return frozenset(flag for param in found.params for flag in (*param.opts, *param.secondary_opts))


def parse_when_made() -> None:
    """From now on, whoever makes a command that the command line refuses gets an `AssertionError`."""
    check = ShellCommand.__post_init__

    def checked(made: ShellCommand) -> None:
        check(made)
        require_parsed(made)

    type.__setattr__(ShellCommand, "__post_init__", checked)
