"""Renders the chart without helm: the part of Go's templates, and of helm's functions, that its templates use."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from tests.places import ROOT

CHART = ROOT / "deploy" / "kubernetes" / "chart"
_ACTION = re.compile(r"(\s*)\{\{-\s+(.*?)\s*(-?)\}\}(\s*)|\{\{\s*(.*?)\s*(-?)\}\}(\s*)", re.DOTALL)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[()|]|[^\s()|]+')


@dataclass
class Block:
    """`if` or `range` with what it holds; a text or an expression is a block without a body."""

    kind: str
    text: str = ""
    body: "list[Block] | None" = None
    otherwise: "list[Block] | None" = None


def render_chart(given: Mapping[str, Any] | None = None, release: str = "kafkakit", chart: Path = CHART) -> list[Any]:
    """The objects as `helm template RELEASE CHART --values FILE` prints them; the schema of values is not asked."""
    values = merged(yaml.safe_load((chart / "values.yaml").read_text("utf-8")), given or {})
    about = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    files = {path.name: path.read_text("utf-8") for path in chart.iterdir() if path.is_file()}
    dot = {
        "Values": values,
        "Release": {"Name": release},
        "Chart": {"AppVersion": about["appVersion"]},
        "Files": {"Get": files.__getitem__},
    }
    found: list[Any] = []
    for path in sorted((chart / "templates").glob("*.yaml")):
        text = "".join(render(parse(path.read_text("utf-8")), dot))
        found += [document for document in yaml.safe_load_all(text) if document]
    return found


def merged(defaults: Any, given: Any) -> Any:
    """Values over the defaults: mappings are joined, all else is replaced."""
    if not isinstance(defaults, dict) or not isinstance(given, Mapping):
        return deepcopy(given)
    found = deepcopy(defaults)
    for key, value in given.items():
        found[key] = merged(found.get(key), value)
    return found


def parse(text: str) -> list[Block]:
    """The blocks of a template."""
    root: list[Block] = []
    stack, place = [root], 0
    open_blocks: list[Block] = []
    for match in _ACTION.finditer(text):
        trims_left = match[2] is not None
        action = match[2] if trims_left else match[5]
        trims_right, after = (match[3], match[4]) if trims_left else (match[6], match[7])
        stack[-1].append(Block("text", text[place : match.start()]))
        place = match.end() if trims_right else match.end() - len(after)
        word = action.split(None, 1)[0]
        if word in ("if", "range"):
            block = Block(word, action.split(None, 1)[1], [], [])
            stack[-1].append(block)
            open_blocks.append(block)
            assert block.body is not None
            stack.append(block.body)
        elif action == "else":
            stack.pop()
            otherwise = open_blocks[-1].otherwise
            assert otherwise is not None
            stack.append(otherwise)
        elif action == "end":
            stack.pop()
            open_blocks.pop()
        else:
            stack[-1].append(Block("value", action))
    root.append(Block("text", text[place:]))
    assert not open_blocks, "a block without its end"
    return root


def render(blocks: Sequence[Block], dot: Any) -> Iterator[str]:
    """The text of blocks; values are printed as Go prints them."""
    for block in blocks:
        if block.kind == "text":
            yield block.text
        elif block.kind == "value":
            value = evaluate(block.text, dot)
            yield str(value).lower() if isinstance(value, bool) else str(value)
        elif block.kind == "if":
            yield from render((block.body if evaluate(block.text, dot) else block.otherwise) or [], dot)
        else:
            assert block.body is not None
            for item in evaluate(block.text, dot) or ():
                yield from render(block.body, item)


def evaluate(text: str, dot: Any) -> Any:
    """A pipeline: the result of each command is the last argument of the next."""
    words = _WORD.findall(text)
    value, rest = _pipeline(words, dot)
    assert not rest, rest
    return value


def _pipeline(words: list[str], dot: Any) -> tuple[Any, list[str]]:
    piped: tuple[Any, ...] = ()
    while True:
        terms: list[Any] = []
        while words and words[0] not in ("|", ")"):
            word, *words = words
            if word == "(":
                value, words = _pipeline(words, dot)
                assert words[0] == ")"
                words = words[1:]
                terms.append(value)
            else:
                terms.append(_term(word, dot))
        head, *arguments = terms
        piped = (head(*arguments, *piped) if callable(head) else head,)
        if not words or words[0] == ")":
            return piped[0], words
        words = words[1:]


def _term(word: str, dot: Any) -> Any:
    if word.startswith('"'):
        return json.loads(word)
    if re.fullmatch(r"\d+", word):
        return int(word)
    if word == ".":
        return dot
    if word.startswith("."):
        for name in word[1:].split("."):
            dot = dot[name]
        return dot
    return FUNCTIONS[word]


def _indent(number: int, text: str) -> str:
    return "\n".join(" " * number + line for line in text.split("\n"))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "quote": lambda value: json.dumps(str(value), ensure_ascii=False),
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True, allow_unicode=True).removesuffix("\n"),
    "indent": _indent,
    "nindent": lambda number, text: "\n" + _indent(number, text),
    "trim": lambda text: text.strip(),
    "sha256sum": lambda text: sha256(text.encode()).hexdigest(),
    "printf": lambda form, *values: form % values,
    "default": lambda usual, value: value or usual,
    "int": int,
    "gt": lambda one, other: one > other,
}
