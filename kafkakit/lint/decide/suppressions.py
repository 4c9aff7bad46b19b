"""Suppressions: comments that accept findings, with a reason and an end; and the rules about suppressions themselves.

`# kafkakit: ignore[KKR201, roll-slower-than-retention] until=2027-01-31 reason="audit topic"` at the end of a line
accepts findings of that line; on a line of its own, of the next line that is no comment. `file-ignore[...]` accepts
findings of the file. A resource may carry its own (`lint: {ignore: {KKR201: "reason"}}`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from kafkakit.core.findings import Place
from kafkakit.lint.decide.pieces import FileProblem
from kafkakit.lint.decide.selection import fits, suggestion
from kafkakit.rules.engine import Checked
from kafkakit.rules.rule import Edit, LintRule

UNUSED, NO_REASON, EXPIRED, UNKNOWN = "KKL001", "KKL002", "KKL003", "KKL004"
_COMMENT = re.compile(r"#\s*kafkakit:\s*(?P<kind>file-ignore|ignore)\s*\[(?P<rules>[^\]]*)\](?P<rest>.*)")
_UNTIL = re.compile(r"\buntil\s*=\s*(\S+)")
_REASON = re.compile(r"\breason\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|(\S+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One suppression: which rules it accepts (as written), where, why and until when.

    `line` is the line whose findings it accepts, None for the whole file; `resource` limits it to a resource's place.
    """

    rules: tuple[str, ...]
    place: Place
    line: int | None = None
    resource: str | None = None
    reason: str = ""
    until: date | None = None
    problem: str = ""

    def is_over(self, today: date) -> bool:
        """True when its last day has passed."""
        return self.until is not None and self.until < today


def parse_suppression(comment: str, place: Place, line: int | None) -> Suppression | None:
    """Read a comment (with its `#`); None when it is no suppression. `line` is what an `ignore` there is about."""
    found = _COMMENT.search(comment)
    if found is None:
        return None
    reason, until, problem = _REASON.search(found["rest"]), _UNTIL.search(found["rest"]), ""
    last_day = None
    if until is not None:
        try:
            last_day = date.fromisoformat(until[1])
        except ValueError:
            problem = f"until={until[1][:30]} is not a date like 2027-01-31"
    return Suppression(
        rules=tuple(name.strip() for name in found["rules"].split(",") if name.strip()),
        place=place,
        line=None if found["kind"] == "file-ignore" else line,
        reason=next((text for text in (reason.groups() if reason else ()) if text), "").strip(),
        until=last_day,
        problem=problem,
    )


def resource_suppressions(ignored: Mapping[str, str], place: Place, resource: str) -> Iterable[Suppression]:
    """The suppressions of a resource's annotation."""
    return [Suppression(rules=(rule,), place=place, resource=resource, reason=why) for rule, why in ignored.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    """What is left to report, how many findings were accepted, and what is wrong with the suppressions."""

    left: tuple[Checked, ...]
    accepted: int
    problems: tuple[FileProblem, ...]


def apply_suppressions(
    checked: Sequence[Checked],
    suppressions: Sequence[Suppression],
    rules: Sequence[LintRule],
    ran: Sequence[LintRule],
    today: date,
) -> Suppressed:
    """Take out what suppressions accept; those that are over accept nothing.

    A suppression is unused when it names a rule that `ran` and accepts no finding. `rules` are all that exist.
    """
    by_path: dict[str, list[tuple[int, Suppression]]] = {}
    for number, suppression in enumerate(suppressions):
        by_path.setdefault(suppression.place.path, []).append((number, suppression))
    used: dict[int, set[str]] = {}
    left = []
    for item in checked:
        place = item.finding.place
        hits = [
            (number, selector)
            for number, suppression in by_path.get(place.path if place else "", ())
            for selector in suppression.rules
            if fits(item.rule, selector) and not suppression.is_over(today) and _covers(suppression, item)
        ]
        for number, selector in hits:
            used.setdefault(number, set()).add(selector)
        if not hits:
            left.append(item)
    problems = [
        problem
        for number, suppression in enumerate(suppressions)
        for problem in _problems(suppression, used.get(number, set()), rules, ran, today)
    ]
    return Suppressed(left=tuple(left), accepted=len(checked) - len(left), problems=tuple(problems))


def _covers(suppression: Suppression, item: Checked) -> bool:
    place = item.finding.place
    if suppression.resource is not None:
        return item.finding.where.split(" of ")[0] == suppression.resource
    return suppression.line is None or (place is not None and place.line == suppression.line)


def _problems(
    suppression: Suppression, used: set[str], rules: Sequence[LintRule], ran: Sequence[LintRule], today: date
) -> Iterable[FileProblem]:
    place = suppression.place
    if suppression.problem:
        yield FileProblem(rule=EXPIRED, message=suppression.problem, place=place)
    if not suppression.reason:
        yield FileProblem(rule=NO_REASON, message='the suppression has no reason="..."', place=place)
    if suppression.is_over(today):
        yield FileProblem(rule=EXPIRED, message=f"the suppression ended on {suppression.until}", place=place)
        return
    for selector in suppression.rules or ("",):
        named = [rule for rule in rules if fits(rule, selector)]
        if not named:
            text = f"no rule fits {selector!r:.60}{suggestion(rules, selector)}" if selector else "it names no rule"
            yield FileProblem(rule=UNKNOWN, message=text, place=place, key=selector or None)
        elif selector not in used and any(rule in ran for rule in named):
            yield FileProblem(
                rule=UNUSED,
                message=f"the suppression of {selector} accepts no finding",
                place=place,
                key=selector,
                edits=(Edit(selector, is_safe=True),) if suppression.resource is None else (),
            )
