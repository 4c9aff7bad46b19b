"""Six habits that messages, help and reports may not have, since English that has them is hard to read.

What a user reads are the string literals of the package, and the docstrings of commands, which are their help. Other
docstrings are left alone, and so are literals of one word.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.package import Module, all_modules

# Each habit with what to write instead. A value in an f-string reads as "{}".
HABITS: dict[str, tuple[str, re.Pattern[str]]] = {
    # "there is no X" is English, and so is "is no longer".
    "is no X": (
        "is not an X",
        re.compile(
            r"(?<!there )\b(?:is|are|was|were|be) no (?!(?:longer|more|less|fewer|later|other|better|such)\b)",
            re.IGNORECASE,
        ),
    ),
    # A place ("where it is", "says where the log begins") and a query ("topics where tier = hot") stay.
    "where": (
        "if, when",
        re.compile(
            r"(?<![-'|])(?<!topics )(?<!brokers )\bwhere (?:no|not|none|one|all|some|more|several|nothing|ours)\b"
            r"|(?<![-'|])(?<!topics )(?<!brokers )\bwhere (?:[^\s.,;:]+ ){1,4}?(?:not|cannot|can|could|may|fails?"
            r"|failed|exceeds?|forbids?|has|have|tells?|names?|several|alive|unlike|known|needed|found|stays?"
            r"|stand beside|to stay|from there)\b"
            r"|\b(?:[01]|even|default|usual|refuse|fail|only) where\b",
            re.IGNORECASE,
        ),
    ),
    ", too": (
        "also, before what it adds",
        re.compile(r"(?<=[\w}]),? (?:too|also)(?=[.;:,)]|$)|, too\b", re.IGNORECASE),
    ),
    # "left alone" is English.
    "alone": ("only", re.compile(r"(?<!left )(?<!leave )(?<!leaves )(?<!it )(?<!them )\balone\b", re.IGNORECASE)),
    "that of": (
        "the noun",
        re.compile(r"\b(?:that|those) of\b|\bwhat is (?:ours|usual|meant)\b", re.IGNORECASE),
    ),
    "goes before": ("overrides", re.compile(r"\b(?:goes?|counts?|comes?) before\b", re.IGNORECASE)),
}
# Literals that are right as they are, ten at most, each as it stands here: with "{}" for a value.
ALLOWED = frozenset({"controller alone", "broker alone"})


def word_faults(root: Path) -> list[str]:
    return [
        f"{module.name}: line {line} has {habit!r}, write {better}: {extract(text, match)!r}"
        for module in all_modules(root)
        for line, text in literals(module)
        if text not in ALLOWED
        for habit, (better, pattern) in HABITS.items()
        if (match := pattern.search(text))
    ]


def literals(module: Module) -> Iterator[tuple[int, str]]:
    """Each string with at least two words, with its line; parts of an f-string are no strings of their own."""
    passed = {id(part) for node in module.nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    passed |= set(unread(module))
    for node in module.nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            text = node.value
        else:
            continue
        text = " ".join(text.split())
        if " " in text:
            yield node.lineno, text


def unread(module: Module) -> Iterator[int]:
    """The docstrings that no user reads: all but the docstrings of commands and groups."""
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not is_command(
            node
        ):
            yield from (id(text.value) for text in node.body if isinstance(text, ast.Expr))


def is_command(node: ast.AST) -> bool:
    """True for what an app registers, and for public functions that take a context: groups load those by name."""
    if not isinstance(node, ast.FunctionDef):
        return False
    registered = any(
        isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ("command", "callback")
        for call in node.decorator_list
    )
    takes = [ast.unparse(each.annotation) for each in node.args.args if each.annotation is not None]
    return registered or (not node.name.startswith("_") and "typer.Context" in takes)


def extract(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - 30) : match.end() + 30].strip()
