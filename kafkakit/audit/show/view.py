"""What every form of a run's results is made from: the run, the one before it, and the numbers of earlier ones."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.audit.decide.comparison import Comparison, RunResults
from kafkakit.core.findings import AuditFinding, Severity
from kafkakit.core.quantities import counted

_ORDER = {severity.value: number for number, severity in enumerate(Severity)}
Columns = Mapping[str, Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run with its findings, worst first, against the last run of the same jobs on an earlier date.

    `comparison` is None where there is no earlier run. `history` are earlier runs, oldest first, without their
    findings; `tables` are columns of the jobs' tables, by job and table.
    """

    run: RunResults
    comparison: Comparison | None = None
    history: tuple[RunResults, ...] = ()
    tables: Mapping[tuple[str, str], Columns] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[str, ...]:
        """The jobs that failed, each with its error."""
        return tuple(f"{r.job}: {r.error}" for r in self.run.results if r.error)

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was not looked at, each sentence once with the jobs it holds for."""
        jobs: dict[str, list[str]] = {}
        for result in self.run.results:
            for sentence in dict.fromkeys(result.skipped):
                jobs.setdefault(sentence, []).append(result.job)
        whole = [r.job for r in self.run.results if not r.error]
        return tuple(s if names == whole else f"{', '.join(names)}: {s}" for s, names in jobs.items())

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters that any job looked at or found something in."""
        looked = {name for result in self.run.results for name in result.clusters}
        return tuple(sorted(looked | {f.cluster for f in self.run.findings}))


def worst_first(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Findings by falling score, then by severity, rule, cluster and place."""
    return tuple(
        sorted(findings, key=lambda f: (-f.score, _ORDER[f.severity], f.rule, f.cluster, f.where, f.job, f.fingerprint))
    )


def severities(findings: Iterable[AuditFinding]) -> dict[str, int]:
    """How many findings of each severity, worst first."""
    numbers = Counter(f.severity for f in findings)
    return {severity.value: numbers[severity.value] for severity in Severity}


def totals(findings: Iterable[AuditFinding]) -> str:
    """The numbers by severity in words: `2 errors, 1 warning, 0 notes`."""
    return ", ".join(counted(number, severity) for severity, number in severities(findings).items())
