"""The manual page kafkakit(1), from the same reference as `docs/commands.md`."""

import textwrap
from collections.abc import Iterable, Iterator

from kafkakit import __version__
from kafkakit.cli.completion import GRAMMAR
from kafkakit.cli.root import CommandEntry, OptionEntry, build_root, commands, root_options
from kafkakit.core.errors import EXIT_CODE_MEANING

FILES = {
    "/etc/kafkakit/config.yaml": "Settings and profiles of all users.",
    "~/.config/kafkakit/config.yaml": "Those of one user, which override them.",
    "./kafkakit.yaml": "Those of a project.",
}


def man_page() -> str:
    """The page as text for man and groff."""
    root = build_root()
    return "\n".join(_lines(root_options(root), commands(root))) + "\n"


def _lines(shared: tuple[OptionEntry, ...], entries: tuple[CommandEntry, ...]) -> Iterator[str]:
    yield f'.TH KAFKAKIT 1 "" "kafkakit {__version__}" "User Commands"'
    yield from (".SH NAME", r"kafkakit \- operations toolkit for Apache Kafka")
    yield from (".SH SYNOPSIS", ".B kafkakit", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]")
    yield from (".SH DESCRIPTION", "Plan, carry out and verify changes of a Kafka cluster.")
    yield from (".PP", "Topics and brokers are written the same in every command:")
    for name, meaning in GRAMMAR.items():
        yield from (".TP", rf"\fI{escaped(name)}\fR", escaped(f"{meaning}."))
    yield from (".SH OPTIONS OF EVERY COMMAND", "They may be given before or after the name of the command.")
    yield from _options(shared)
    yield ".SH COMMANDS"
    for entry in entries:
        yield f'.SS "kafkakit {escaped(entry.words)}"'
        yield from _help(entry.help)
        yield from _options((*entry.arguments, *entry.options))
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODE_MEANING.items():
        yield from (".TP", rf"\fB{int(code)}\fR", escaped(f"{meaning}."))
    yield ".SH FILES"
    for path, meaning in FILES.items():
        yield from (".TP", rf"\fI{escaped(path)}\fR", escaped(meaning))


def escaped(text: str) -> str:
    """Plain text of one line, which no line of a request can be taken for."""
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("'", r"\(aq")
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain


def _help(text: str) -> Iterator[str]:
    """Paragraphs are filled; examples and lists stay as they are."""
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        lines = textwrap.dedent(paragraph).splitlines()
        if any(line.startswith(("kafkakit ", "  ", "- ")) for line in lines):
            yield from (".nf", *(escaped(line) or ".sp" for line in lines), ".fi")
        else:
            yield escaped(" ".join(" ".join(lines).split()))


def _options(options: Iterable[OptionEntry]) -> Iterator[str]:
    for option in options:
        value = option.value if option.value and option.names[0].startswith("-") else None
        names = ", ".join(rf"\fB{escaped(name)}\fR" for name in option.names)
        notes = [f"Default: {option.default}."] if option.default else []
        notes += [f"Environment: {', '.join(option.env)}."] if option.env else []
        notes += ["Required."] if option.required else []
        notes += ["Repeatable."] if option.repeatable else []
        yield ".TP"
        yield names + (rf" \fI{escaped(value)}\fR" if value else "")
        yield escaped(" ".join(" ".join((option.help, *notes)).split()))
