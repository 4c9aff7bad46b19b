"""Statements of templates in files of configuration: Jinja, Go templates (Helm, confd), ERB, Mustache, envsubst.

A line that is only statements configures nothing. The branches of a condition are alternatives: of all that a template
may become, the texts here show each branch once, the first of each condition in the first text, the second in the
second. Lines of other branches, and statements, are blanked out in place, so that every value stays where it stands in
the file. What stands in a loop is read once.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

MOST_ALTERNATIVES = 20
"""How many branches of one condition are read; those behind them are left out of all texts."""

_MARKS = ("{%", "{{", "{#", "<%", "${")
# No part goes over the beginning of another one, so that a text without ends is read in linear time.
_COMMENT = re.compile(
    r"\{#(?:(?!\{#|#\}).)*#\}|\{\{-? ?/\*(?:(?!\{\{|\*/).)*\*/ ?-?\}\}"
    r"|<%#(?:(?!<%|%>).)*%>|\{\{!(?:(?!\{\{|\}\}).)*\}\}",
    re.DOTALL,
)
# One statement, or one expression that stands for whole lines.
_TAG = re.compile(
    r"\{%(?P<jinja>(?:(?!\{%|%\}).)*)%\}|\{\{(?P<go>(?:(?!\{\{|\}\}).)*)\}\}|<%(?P<erb>(?:(?!<%|%>).)*)%>"
    r"|(?P<shell>\$\{[A-Za-z_][^{}]*\})",
    re.DOTALL,
)
_UNQUOTED = re.compile(
    r"^([ \t]*(?:- +)?[\w.\"'/-]+:[ \t]+)([^\s\"'{#|>&*!][^\r\n\"'{]*)?(\{\{[^\r\n]*\}\})[ \t]*$", re.MULTILINE
)
_NO_WORD = re.compile(r"[^A-Za-z0-9_.-]")
_FILLED = re.compile(r"[^\r\n]+")
_LINE_END = re.compile(r"\r\n|\r|\n")


class _Step(Enum):
    """What a statement does to the branches around it."""

    OPEN = auto()
    """A condition begins, with its first branch."""
    LOOP = auto()
    """A block begins that has no other branch unless `else` follows."""
    NEXT = auto()
    CLOSE = auto()
    NONE = auto()


_OPENING = re.compile(r"(?:if|unless|ifversion|case)\b")
_LOOPING = re.compile(r"(?:for|range|with|define|block|macro|call|filter|raw|verbatim|autoescape|trans)\b")
_NEXT = re.compile(r"(?:else|elif|elsif|elseif|elsf|when)\b|\}\s*else\b")
_CLOSING = re.compile(r"end\w*\b|\}")
_RUBY_BLOCK = re.compile(r"\bdo\b\s*(?:\|[^|]*\|)?\s*$|\{\s*(?:\|[^|]*\|)?\s*$")


@dataclass(slots=True)
class _Branches:
    """A condition that is open: the number of its branch that is read now."""

    is_condition: bool
    branch: int = 0


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the text: whether it is only statements, and in which branch of which conditions it stands."""

    start: int
    end: int
    is_statement: bool
    branches: tuple[tuple[int, int], ...]
    """Number of a condition in the file, and number of its branch."""


@dataclass(slots=True)
class _Reader:
    open: list[tuple[int, _Branches]] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    """How many branches each condition has, by its number."""

    def step(self, step: _Step) -> None:
        """Follow one statement."""
        if step in (_Step.OPEN, _Step.LOOP):
            number = len(self.numbers)
            self.numbers[number] = 1
            self.open.append((number, _Branches(step is _Step.OPEN)))
        elif step is _Step.NEXT and self.open:
            number, branches = self.open[-1]
            branches.branch += 1
            self.numbers[number] = branches.branch + 1
        elif step is _Step.CLOSE and self.open:
            self.open.pop()

    def branches(self) -> tuple[tuple[int, int], ...]:
        """Where the reader stands."""
        return tuple((number, branches.branch) for number, branches in self.open)


def branches_of(text: str) -> Callable[[int], tuple[tuple[int, int], ...]]:
    """Tells for an offset of the text in which branches of which conditions and loops it stands."""
    lines = _lines(text)[0]
    starts = [line.start for line in lines]
    return lambda at: lines[bisect_right(starts, at) - 1].branches if lines else ()


def alternatives(text: str, *, is_yaml: bool = False) -> tuple[str, ...]:
    """What the text may become, each as long as the text; the text itself if it has no statements.

    In YAML a value that is filled in and has no quotes is made a word, since `{{` begins a mapping there.

    Linear in the text, times the branches of the condition that has most.
    """
    if not any(mark in text for mark in _MARKS):
        return (text,)
    if is_yaml:
        text = _UNQUOTED.sub(_write_word, text)
    lines, numbers = _lines(text)
    if not any(line.is_statement for line in lines):
        return (text,)
    most = min(max(numbers.values(), default=1), MOST_ALTERNATIVES)
    return tuple(_choose_text(text, lines, numbers, choice) for choice in range(most))


def _write_word(found: "re.Match[str]") -> str:
    before = found[2] or ""
    word = "__" + _NO_WORD.sub("_", found[3][2:-2]).upper() + "__"
    return found[1] + before + word + found.group()[len(found[1]) + len(before) + len(found[3]) :]


def _choose_text(text: str, lines: Sequence[_Line], numbers: dict[int, int], choice: int) -> str:
    kept = []
    for line in lines:
        whole = text[line.start : line.end]
        is_read = all(branch == min(choice, numbers[number] - 1) for number, branch in line.branches)
        kept.append(whole if is_read and not line.is_statement else _blank(whole))
    return "".join(kept)


def _blank(text: str) -> str:
    return _FILLED.sub(lambda found: " " * len(found.group()), text)


def _lines(text: str) -> tuple[list[_Line], dict[int, int]]:
    hidden = _COMMENT.sub(lambda found: _blank(found.group()), text)
    reader, found = _Reader(), []
    at = 0
    while at < len(text):
        end = _end_of_line(hidden, at)
        was_comment = hidden[at:end].strip() != text[at:end].strip() and not hidden[at:end].strip()
        if was_comment:
            found.append(_Line(at, end, True, reader.branches()))
        elif _is_only_tags(hidden[at:end]):
            before = reader.branches()
            for step in _steps(hidden[at:end]):
                reader.step(step)
            found.append(_Line(at, end, True, before))
        else:
            found.append(_Line(at, end, False, reader.branches()))
        at = end
    return found, reader.numbers


def _end_of_line(text: str, at: int) -> int:
    """The end of the line; of several where a statement goes over them."""
    end = _next_end(text, at)
    opened = re.match(r"[ \t]*(\{%|\{\{|<%)", text[at:end])
    if opened is None:
        return end
    closing = {"{%": "%}", "{{": "}}", "<%": "%>"}[opened[1]]
    if closing in text[at:end]:
        return end
    behind = text.find(closing, end)
    return end if behind < 0 else _next_end(text, behind)


def _next_end(text: str, at: int) -> int:
    found = _LINE_END.search(text, at)
    return found.end() if found else len(text)


def _is_only_tags(line: str) -> bool:
    stripped = line.strip()
    if not stripped.startswith(("{%", "{{", "<%", "${")):
        return False
    rest = _TAG.sub("", stripped).strip()
    # `{{ key }}={{ value }}`: a line whose very key is filled in; nothing is known of it.
    return not rest or (stripped.startswith(("{{", "${", "<%=")) and re.match(r"[=:]|[\w.-]+\s*=", rest) is not None)


def _steps(line: str) -> Iterator[_Step]:
    for found in _TAG.finditer(line):
        yield _step_of(found)


def _step_of(found: "re.Match[str]") -> _Step:
    if found["shell"] is not None:
        return _Step.NONE
    words = next(part for part in (found["jinja"], found["go"], found["erb"]) if part is not None).strip("-~+= \t\r\n")
    if found["go"] is not None and words[:1] in ("#", "^"):  # Mustache
        return _Step.LOOP
    if (found["go"] is not None and words[:1] == "/") or _CLOSING.match(words):
        is_else = _NEXT.match(words) is not None
        return _Step.NEXT if is_else else _Step.CLOSE
    if _NEXT.match(words):
        return _Step.NEXT
    if _OPENING.match(words):
        return _Step.OPEN
    if _LOOPING.match(words) or (found["erb"] is not None and _RUBY_BLOCK.search(words)):
        return _Step.LOOP
    return _Step.NONE
