"""What the command line says about commands that messages print: its own parsers read them, and nothing runs.

`makers` lists every place in the source that makes a command, `refusal_of` parses one, and `parse_when_made` has all
parsed that are made while tests run.
"""

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
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
    """A place in the source that makes a command: the words and the options that it names there.

    `function` is the module and the innermost function: `topicmappr/decide/plain_requests.py:set_replication`.
    """

    place: str
    function: str
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
        for function, node in _calls(tree, ""):
            if isinstance(node.func, ast.Name) and node.func.id in imported:
                where = path.relative_to(root)
                yield _maker(f"{where}:{node.lineno}", f"{where}:{function}", node)


def _calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield function, child
        inside = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
        yield from _calls(child, inside)


def _maker(place: str, function: str, call: ast.Call) -> Maker:
    first = call.args[0] if call.args else None
    verb = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    named = (k.arg for k in call.keywords if k.arg not in (None, "program", "typed", "arguments", "options"))
    return Maker(place, function, verb, tuple(f"--{name.rstrip('_').replace('_', '-')}" for name in named if name))


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


@contextmanager
def functions_reached() -> Iterator[set[str]]:
    """The functions that make commands in this block, named as makers are."""
    check, found = ShellCommand.__post_init__, set[str]()

    def noted(made: ShellCommand) -> None:
        check(made)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            path, name = Path(frame.f_code.co_filename), frame.f_code.co_name
            if path.is_relative_to(SOURCES) and name != "shell_command":
                names = [each for each in frame.f_code.co_qualname.split(".") if not each.startswith("<")]
                found.add(f"{path.relative_to(SOURCES)}:{names[-1]}")
                return
            frame = frame.f_back

    type.__setattr__(ShellCommand, "__post_init__", noted)
    try:
        yield found
    finally:
        type.__setattr__(ShellCommand, "__post_init__", check)


@dataclass(frozen=True, slots=True)
class Named:
    """A command in a text of the source: its words, and what follows them, with `{}` for each value."""

    place: str
    verb: str
    rest: str
    by_value: bool

    @property
    def has_value(self) -> bool:
        """True where a value is written into the line: that is for `ShellCommand`."""
        return self.by_value or re.match(r"( --?[a-z][a-z-]*)* ?\{\}", self.rest) is not None

    @property
    def options(self) -> tuple[str, ...]:
        """The options that follow at once."""
        found = re.match(r"(?: [A-Z]{2,}| --[a-z][a-z-]*(?: [A-Z]+)?)+", self.rest)
        return tuple(re.findall(r"--[a-z][a-z-]*", found[0])) if found else ()


_WORD = r"(?:'[^']*'|-?[A-Z0-9][\w,.:|%-]*|live|\{\})"
_TYPED = re.compile(rf"(?: (?:--[a-z][a-z-]*(?:[ =]{_WORD})?|{_WORD}))*")


def lacking(each: Named) -> str:
    """What the line that a text names lacks: an argument, an option that it must have, the command of a group.

    Words in capitals stand for a value there.
    """
    found = _TYPED.match(each.rest)
    typed = shlex.split(found[0]) if found else []
    refusal = refusal_of((*each.verb.split(), *(word.rstrip(",.") for word in typed)))
    return refusal if re.search("Missing|is missing|requires an argument", refusal) else ""


def runs_on(each: Named) -> bool:
    """True where words of the sentence follow the line that a text names."""
    found = _TYPED.match(each.rest)
    return re.match(r" +[a-z]", each.rest[found.end() if found else 0 :]) is not None


def named_commands(root: Path = SOURCES) -> Iterator[Named]:
    """The commands in texts that are not docstrings."""
    known = set(_all_verbs(_root().loaded(), ()))
    for path in sorted(root.rglob("*.py")):
        source = path.read_text("utf-8")
        for line, text in _texts(ast.parse(source)) if "kafkakit " in source or "program}" in source else ():
            for start in re.finditer(r"(?<![\w/.-])(kafkakit|\{\}) (?=[a-z])", text):
                rest = text[start.end() :].split("\n")[0]
                verb = _longest(rest, known)
                if len(verb) > (start[1] == "{}"):
                    yield Named(
                        f"{path.relative_to(root)}:{line}",
                        " ".join(verb),
                        rest[len(" ".join(verb)) :],
                        start[1] == "{}",
                    )


def _longest(text: str, known: set[tuple[str, ...]]) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    for word in re.findall(r"[a-z-]+ ?", text):
        if (*found, word.strip()) not in known or not text.startswith(" ".join((*found, word.strip()))):
            break
        found = (*found, word.strip())
    return found


def _all_verbs(commands: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, command in commands.items():
        yield (*above, name)
        yield from _all_verbs(getattr(command, "commands", None) or {}, (*above, name))


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value
