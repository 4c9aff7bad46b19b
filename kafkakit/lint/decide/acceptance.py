"""Findings that are accepted: by suppressions in comments or resources, and by the baseline; and rules about both.

`# kafkakit: ignore[KKR201, roll-slower-than-retention] until=2027-01-31 reason="audit topic"` at the end of a line
accepts findings of that line; on a line of its own, of the next line that is no comment. `file-ignore[...]` accepts
findings of the file. A resource may carry its own (`lint: {ignore: {KKR201: "reason"}}`).

The baseline holds findings that are accepted today, by fingerprint and count, so that only new ones are reported.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import msgspec

from kafkakit.core.findings import Place
from kafkakit.lint.decide.lint_config import fits, suggestion
from kafkakit.lint.decide.pieces import FileProblem, ResourceAcceptance
from kafkakit.rules.engine import RuleFinding
from kafkakit.rules.rule import Edit, LintRule

UNUSED, NO_REASON, EXPIRED, UNKNOWN = "KKL001", "KKL002", "KKL003", "KKL004"
_COMMENT = re.compile(r"#\s*kafkakit:\s*(?P<kind>file-ignore|ignore)\s*\[(?P<rules>[^\]]*)\](?P<rest>.*)")
_UNTIL = re.compile(r"\buntil\s*=\s*(\S+)")
_REASON = re.compile(r"\breason\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|(\S+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One suppression: which rules it accepts (as written), where, why and until when.

    `line` is the line whose findings it accepts, None for the whole file; `resource` limits it to a resource by its
    name in findings, `inside` to what stands in a resource.
    """

    rules: tuple[str, ...]
    place: Place
    line: int | None = None
    resource: str | None = None
    inside: ResourceAcceptance | None = None
    reason: str = ""
    until: date | None = None
    problem: str = ""

    @property
    def is_comment(self) -> bool:
        """True for a comment, which a fix can take away."""
        return self.resource is None and self.inside is None

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


def annotation_suppressions(accepted: ResourceAcceptance) -> Iterable[Suppression]:
    """The suppressions of annotations at a resource of Kubernetes."""
    for rule, why in accepted.ignored.items():
        yield Suppression(rules=(rule,), place=accepted.place, inside=accepted, reason=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressionResult:
    """What is left to report, how many findings were accepted, and what is wrong with the suppressions."""

    left: tuple[RuleFinding, ...]
    accepted: int
    problems: tuple[FileProblem, ...]


Numbered = tuple[int, Suppression]


@dataclass(slots=True)
class _OfFile:
    """The suppressions of one file with their numbers, by what they are about."""

    whole: list[Numbered] = field(default_factory=list)
    lines: dict[int, list[Numbered]] = field(default_factory=dict)
    resources: dict[str, list[Numbered]] = field(default_factory=dict)
    inside: dict[tuple[int, int], list[Numbered]] = field(default_factory=dict)
    """Those of resources of Kubernetes, of which none stands in another, by where the resource begins."""
    starts: list[tuple[int, int]] | None = None

    def add(self, number: int, suppression: Suppression) -> None:
        """Take one more, before anything is looked up."""
        one = (number, suppression)
        if suppression.inside is not None:
            place = suppression.inside.place
            self.inside.setdefault((place.line, place.column), []).append(one)
        elif suppression.resource is not None:
            self.resources.setdefault(suppression.resource, []).append(one)
        elif suppression.line is not None:
            self.lines.setdefault(suppression.line, []).append(one)
        else:
            self.whole.append(one)

    def near(self, item: RuleFinding) -> Iterator[Numbered]:
        """Those that may accept a finding."""
        yield from self.whole
        yield from self.resources.get(item.finding.where.split(" of ")[0], ())
        place = item.finding.place
        if place is None:
            return
        yield from self.lines.get(place.line, ())
        if self.starts is None:
            self.starts = sorted(self.inside)
        before = bisect_right(self.starts, (place.line, place.column))
        if before:
            yield from self.inside[self.starts[before - 1]]


NONE_OF_FILE = _OfFile()


@dataclass(slots=True)
class _NamedRules:
    """The rules that selectors name, each worked out once."""

    rules: Sequence[LintRule]
    found: dict[str, list[LintRule]] = field(default_factory=dict)

    def by(self, selector: str) -> list[LintRule]:
        """The rules that a selector fits."""
        if selector not in self.found:
            self.found[selector] = [rule for rule in self.rules if fits(rule, selector)]
        return self.found[selector]


def apply_suppressions(
    checked: Sequence[RuleFinding],
    suppressions: Sequence[Suppression],
    rules: Sequence[LintRule],
    ran: Sequence[LintRule],
    today: date,
) -> SuppressionResult:
    """Take out what suppressions accept; those that are over accept nothing.

    A suppression is unused when it names a rule that `ran` and accepts no finding. `rules` are all that exist.
    """
    by_path: dict[str, _OfFile] = {}
    for number, suppression in enumerate(suppressions):
        by_path.setdefault(suppression.place.path, _OfFile()).add(number, suppression)
    used: dict[int, set[str]] = {}
    left = []
    for item in checked:
        place = item.finding.place
        hits = [
            (number, selector)
            for number, suppression in by_path.get(place.path if place else "", NONE_OF_FILE).near(item)
            for selector in suppression.rules
            if fits(item.rule, selector) and not suppression.is_over(today) and _covers(suppression, item)
        ]
        for number, selector in hits:
            used.setdefault(number, set()).add(selector)
        if not hits:
            left.append(item)
    named = _NamedRules(rules)
    problems = [
        problem
        for number, suppression in enumerate(suppressions)
        for problem in _problems(suppression, used.get(number, set()), named, ran, today)
    ]
    return SuppressionResult(left=tuple(left), accepted=len(checked) - len(left), problems=tuple(problems))


def _covers(suppression: Suppression, item: RuleFinding) -> bool:
    place = item.finding.place
    if suppression.inside is not None:
        return place is not None and suppression.inside.holds(place)
    if suppression.resource is not None:
        return item.finding.where.split(" of ")[0] == suppression.resource
    return suppression.line is None or (place is not None and place.line == suppression.line)


def _problems(
    suppression: Suppression, used: set[str], rules: _NamedRules, ran: Sequence[LintRule], today: date
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
        named = rules.by(selector)
        if not named:
            text = (
                f"no rule fits {selector!r:.60}{suggestion(rules.rules, selector)}" if selector else "it names no rule"
            )
            yield FileProblem(rule=UNKNOWN, message=text, place=place, key=selector or None)
        elif selector not in used and any(rule in ran for rule in named):
            yield FileProblem(
                rule=UNUSED,
                message=f"the suppression of {selector} accepts no finding",
                place=place,
                key=selector,
                edits=(Edit(selector, is_safe=True),) if suppression.is_comment else (),
            )


KIND = "lint-baseline"
BASELINE_LIMIT_BYTES = 64 * 2**20
STALE = "KKL005"


class BaselineEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Accepted findings of one fingerprint; rule and place are there for people to read."""

    fingerprint: str
    rule: str
    where: str
    count: int = 1


class Baseline(msgspec.Struct, frozen=True):
    """A baseline file."""

    findings: list[BaselineEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineResult:
    """What is left to report, how many findings the baseline accepts, and its entries that no finding needs."""

    left: tuple[RuleFinding, ...]
    accepted: int
    stale: Mapping[str, BaselineEntry] = field(default_factory=dict)


def decode_baseline(data: bytes, source: str) -> Baseline:
    """Read a baseline; `InputError` when it is none."""
    from kafkakit.core.documents import decode_document

    return decode_document(data, KIND, Baseline, source)


def encode_baseline(checked: Sequence[RuleFinding]) -> bytes:
    """A baseline that accepts these findings, sorted, with one entry a line so that changes are easy to review."""
    numbers = Counter((c.finding.fingerprint, c.finding.rule, c.finding.where) for c in checked)
    entries = [
        BaselineEntry(fingerprint=fingerprint, rule=rule, where=where, count=count)
        for (fingerprint, rule, where), count in sorted(numbers.items(), key=lambda item: (item[0][1:], item[0][0]))
    ]
    return _one_a_line(Baseline(findings=entries))


def prune_baseline(baseline: Baseline, checked: Sequence[RuleFinding]) -> bytes:
    """The baseline without what no finding needs any more."""
    now = Counter(c.finding.fingerprint for c in checked)
    kept = [
        BaselineEntry(e.fingerprint, e.rule, e.where, min(e.count, now[e.fingerprint]))
        for e in baseline.findings
        if now[e.fingerprint]
    ]
    return _one_a_line(Baseline(findings=kept))


def apply_baseline(checked: Sequence[RuleFinding], baseline: Baseline) -> BaselineResult:
    """Take out accepted findings, at most as many of a fingerprint as its entry counts."""
    budget = {entry.fingerprint: entry.count for entry in baseline.findings}
    left = []
    for item in checked:
        if budget.get(item.finding.fingerprint, 0) > 0:
            budget[item.finding.fingerprint] -= 1
        else:
            left.append(item)
    stale = {e.fingerprint: e for e in baseline.findings if budget[e.fingerprint] == e.count}
    return BaselineResult(left=tuple(left), accepted=len(checked) - len(left), stale=stale)


def stale_problems(baselined: BaselineResult, path: str) -> tuple[FileProblem, ...]:
    """The entries that no finding needs, as problems of the baseline file."""
    return tuple(
        FileProblem(
            rule=STALE,
            message=f"the baseline accepts {entry.rule} at {entry.where}, which is not found any more",
            place=Place(path, 1),
            key=entry.fingerprint,
        )
        for entry in baselined.stale.values()
    )


def _one_a_line(baseline: Baseline) -> bytes:
    from kafkakit.core.documents import encode_document

    head = encode_document(KIND, Baseline(findings=[])).rstrip(b"\n").removesuffix(b"]}")
    return head + b"\n" + b",\n".join(map(msgspec.json.encode, baseline.findings)) + b"\n]}\n"
