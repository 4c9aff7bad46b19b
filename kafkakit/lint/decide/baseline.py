"""The baseline: findings that are accepted today, by fingerprint and count, so that only new ones are reported."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from kafkakit.core.findings import Place
from kafkakit.lint.decide.pieces import FileProblem
from kafkakit.rules.engine import Checked

KIND = "lint-baseline"
LIMIT_BYTES = 64 * 2**20
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
class Baselined:
    """What is left to report, how many findings the baseline accepts, and its entries that no finding needs."""

    left: tuple[Checked, ...]
    accepted: int
    stale: Mapping[str, BaselineEntry] = field(default_factory=dict)


def decode_baseline(data: bytes, source: str) -> Baseline:
    """Read a baseline; `InputError` when it is none."""
    from kafkakit.core.documents import decode_document

    return decode_document(data, KIND, Baseline, source)


def encode_baseline(checked: Sequence[Checked]) -> bytes:
    """A baseline that accepts these findings, sorted, with one entry a line so that changes are easy to review."""
    numbers = Counter((c.finding.fingerprint, c.finding.rule, c.finding.where) for c in checked)
    entries = [
        BaselineEntry(fingerprint=fingerprint, rule=rule, where=where, count=count)
        for (fingerprint, rule, where), count in sorted(numbers.items(), key=lambda item: (item[0][1:], item[0][0]))
    ]
    return _one_a_line(Baseline(findings=entries))


def prune_baseline(baseline: Baseline, checked: Sequence[Checked]) -> bytes:
    """The baseline without what no finding needs any more."""
    now = Counter(c.finding.fingerprint for c in checked)
    kept = [
        BaselineEntry(e.fingerprint, e.rule, e.where, min(e.count, now[e.fingerprint]))
        for e in baseline.findings
        if now[e.fingerprint]
    ]
    return _one_a_line(Baseline(findings=kept))


def apply_baseline(checked: Sequence[Checked], baseline: Baseline) -> Baselined:
    """Take out accepted findings, at most as many of a fingerprint as its entry counts."""
    budget = {entry.fingerprint: entry.count for entry in baseline.findings}
    left = []
    for item in checked:
        if budget.get(item.finding.fingerprint, 0) > 0:
            budget[item.finding.fingerprint] -= 1
        else:
            left.append(item)
    stale = {e.fingerprint: e for e in baseline.findings if budget[e.fingerprint] == e.count}
    return Baselined(left=tuple(left), accepted=len(checked) - len(left), stale=stale)


def stale_problems(baselined: Baselined, path: str) -> tuple[FileProblem, ...]:
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
