"""Words of other tools: each runs a command of ours, with its options and its output, and no help names them."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from kafkakit.cli.root import ALIASES, build_root, commands


def pairs() -> Iterator[tuple[str, str]]:
    for word, meant in ALIASES.items():
        if isinstance(meant, str):
            yield word, meant
        else:
            yield from ((f"{word} {name}", target) for name, target in meant.items())


def resolved(words: str) -> Any:
    group, rest = build_root(), words.split()
    while rest:
        context = typer.Context(group, resilient_parsing=True)
        _, group, rest = group.resolve_command(context, rest)
    return group


@pytest.mark.parametrize(("alias", "meant"), list(pairs()))
def test_an_alias_is_the_command_itself_and_no_copy(alias: str, meant: str) -> None:
    assert resolved(alias).callback is resolved(meant).callback
    assert [p.opts for p in resolved(alias).params] == [p.opts for p in resolved(meant).params]


def test_every_alias_stands_for_a_command_of_the_reference() -> None:
    known = {command.words for command in commands(build_root())}
    assert {meant for _, meant in pairs()} <= known
    assert not {alias for alias, _ in pairs()} & known


def test_no_help_names_an_alias() -> None:
    root = build_root()
    text = root.get_help(typer.Context(root, info_name="kafkakit"))
    listed = {line.split()[0] for line in text.splitlines() if line.startswith("  ") and line.split()}
    assert "status" in listed
    assert not listed & set(ALIASES)
