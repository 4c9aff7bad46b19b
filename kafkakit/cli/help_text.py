"""The options of a command's help in sections, and the shared ones folded to one line."""

import re
from collections.abc import Collection
from typing import Any

from kafkakit.cli.cluster_words import GRAMMAR
from kafkakit.cli.help_sections import SECTIONS, section_of
from kafkakit.cli.shared_options import SHARED_TITLE, shows_all

FOLDED = "Every command takes --profile, -B, -o, --timeout and more: see --help-all."
MAX_WIDTH = 10_000
"""Help is as wide as the terminal, however wide that is."""


def plain_usage(piece: str) -> str:
    """A piece of a usage line without braces around what is required, and with brackets and dots once."""
    plain = re.sub(r"^\{(.*)\}", r"\1", piece).replace("......", "...")
    return re.sub(r"^\[(\[[^\[\]]+\])(?:\.\.\.)?\]", r"\1", plain)


def write_options(command: Any, ctx: Any, formatter: Any, shared: Collection[str]) -> None:
    """Write the arguments, then the command's own options by section, then the shared ones or a line about them."""
    _, *words = ctx.command_path.split()
    sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *SECTIONS, SHARED_TITLE)}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is None:
            continue
        if param.param_type_name == "argument":
            sections["Arguments"].append(record)
        elif param.name in shared:
            sections[SHARED_TITLE].append(record)
        else:
            sections[section_of(words, param.name)].append(record)
    folded = () if shows_all(ctx) else sections.pop(SHARED_TITLE)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
    taken = {param.metavar for param in command.params}
    notes = [f"{name}: {meaning}." for name, meaning in GRAMMAR.items() if name in taken]
    for note in (*notes, *([FOLDED] if folded else ())):
        formatter.write_paragraph()
        formatter.write_text(note)
