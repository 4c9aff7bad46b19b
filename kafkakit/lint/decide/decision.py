"""A run of lint as a pure function: documents, live pieces and options in, findings out.

The result holds what was found after suppressions and the baseline; problems of files are findings too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import translate
from functools import cache

import msgspec

from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError
from kafkakit.core.findings import FailOn, Finding, Severity, fingerprint_of
from kafkakit.core.options import REPEATED, option, parsed_option
from kafkakit.core.text import sanitize
from kafkakit.lint.decide.acceptance import (
    Baseline,
    Suppression,
    annotation_suppressions,
    apply_baseline,
    apply_suppressions,
    parse_suppression,
    resource_suppressions,
    stale_problems,
)
from kafkakit.lint.decide.files import UNKNOWN_KIND, FileReading
from kafkakit.lint.decide.lint_config import AssumedDefaults, LintConfig, RuleSelection, RuleSet, fits, selected_rules
from kafkakit.lint.decide.membership import Assumption, assumptions_of
from kafkakit.lint.decide.pieces import AssemblyOptions, FileProblem, Pieces, assemble, refuse_versions
from kafkakit.rules.effective import Anchor
from kafkakit.rules.engine import RuleFinding, check_estate, in_file_order, merged_brokers, merged_outcomes
from kafkakit.rules.rule import Fix, Limits, LintRule, Subject
from kafkakit.rules.subjects import Estate, node_name


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """What to check and what to accept. `rules` are those selected, `known` all that exist.

    `per_file_ignores` are (pattern of paths, selectors); `severities` replace a rule's own by code.
    """

    rules: tuple[LintRule, ...]
    known: tuple[LintRule, ...]
    assemble: AssemblyOptions
    today: date
    limits: Limits
    severities: Mapping[str, Severity] = field(default_factory=dict)
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    baseline: Baseline | None = None
    baseline_path: str = ""
    problems: tuple[FileProblem, ...] = ()
    """Those of the lint configuration."""
    docs_url: str = ""
    each: bool = False
    """Judge each file on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """Findings to report, in the order of files; `rules` are those that were selected.

    `skipped` says for each code what was missing and how often; `suppressed` and `baselined` count findings that are
    accepted. `resources` counts what was linted, by kind. `docs_url` is where the pages of the rules are published.
    `unread` are files that speak of Kafka, but of no kind that lint reads; `unchecked` those given by name of which
    nothing was read although the run is about them.
    """

    checked: tuple[RuleFinding, ...]
    rules: tuple[LintRule, ...]
    files: tuple[str, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    suppressed: int = 0
    baselined: int = 0
    docs_url: str = ""
    unread: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings alone."""
        return tuple(c.finding for c in self.checked)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRun:
    """The result, and what it was made from: all findings before the baseline, and the estate."""

    result: LintResult
    unaccepted: tuple[RuleFinding, ...]
    estate: Estate


def lint(files: Sequence[FileReading], live: Sequence[Pieces], request: LintRequest) -> LintRun:
    """Check files and what was read from clusters. Linear in resources x rules; the order of files changes nothing."""
    given, files = files, sorted(files, key=lambda file: file.document.path)
    refuse_versions([*(file.pieces for file in files), *live], request.assemble)
    estates = _estates(files, live, request)
    estate = _join_estates(estates)
    outcome = merged_outcomes([check_estate(own, request.rules, request.limits) for own in estates])
    outcome = replace(outcome, checked=(*outcome.checked, *_of_alternatives(outcome.checked, files, live, request)))
    chosen = {rule.code: rule for rule in request.rules}
    problems = [problem for file in files for problem in file.pieces.problems] + list(request.problems)
    checked = [*outcome.checked, *check_problems(problems, chosen)]
    checked = [_with_severity(item, request.severities) for item in checked if not _is_ignored(item, request)]
    suppressions = [s for file in files for s in suppressions_of(file)]
    kept = apply_suppressions(checked, suppressions, request.known, request.rules, request.today)
    unaccepted = in_file_order([*kept.left, *check_problems(kept.problems, chosen)])
    left, baselined = unaccepted, 0
    if request.baseline is not None:
        accepted = apply_baseline(unaccepted, request.baseline)
        stale = check_problems(stale_problems(accepted, request.baseline_path), chosen)
        left, baselined = in_file_order([*accepted.left, *stale]), accepted.accepted
    return LintRun(
        result=LintResult(
            checked=merged_brokers(left),
            rules=request.rules,
            files=tuple(sorted(file.document.path for file in given if file.kinds or file.pieces.problems)),
            resources=_resources(estate),
            skipped=outcome.skipped,
            suppressed=kept.accepted,
            baselined=baselined,
            docs_url=request.docs_url,
            unread=tuple(sorted(file.document.path for file in files if file.speaks)),
            unchecked=() if request.each else _unchecked_files(files, bool(live)),
            assumptions=assumptions_of(estate.clusters),
        ),
        unaccepted=unaccepted,
        estate=estate,
    )


def _unchecked_files(files: Sequence[FileReading], has_live: bool) -> tuple[str, ...]:
    """The files given by name of which nothing was read: those that speak of Kafka, or all if nothing else was read."""
    is_any_read = has_live or any(file.kinds for file in files)
    named = [file for file in files if any(problem.rule == UNKNOWN_KIND for problem in file.pieces.problems)]
    return tuple(file.document.path for file in named if file.speaks or not is_any_read)


def estate_of(files: Sequence[FileReading], live: Sequence[Pieces], request: LintRequest) -> Estate:
    """What the files and clusters of a run declare, whatever the order of files."""
    return _join_estates(_estates(sorted(files, key=lambda file: file.document.path), live, request))


def _estates(files: Sequence[FileReading], live: Sequence[Pieces], request: LintRequest) -> list[Estate]:
    """The estates that are judged apart: one, or one for each file."""
    parts = [[file.pieces] for file in files] if request.each else [[*(file.pieces for file in files), *live]]
    return [assemble(pieces, request.assemble) for pieces in parts]


def _join_estates(estates: Sequence[Estate]) -> Estate:
    return Estate(
        clusters=tuple(cluster for estate in estates for cluster in estate.clusters),
        agents=tuple(agent for estate in estates for agent in estate.agents),
        connectors=tuple(connector for estate in estates for connector in estate.connectors),
    )


def _of_alternatives(
    found: Sequence[RuleFinding], files: Sequence[FileReading], live: Sequence[Pieces], request: LintRequest
) -> Iterator[RuleFinding]:
    """What is found only in further branches of templates, at those files."""
    seen = {(item.rule.code, item.finding.place, item.finding.message) for item in found}
    templates = {file.document.path for file in files if file.alternatives}
    for number in range(max((len(file.alternatives) for file in files), default=0)):
        chosen = [
            replace(file, pieces=file.alternatives[number]) if number < len(file.alternatives) else file
            for file in files
        ]
        outcomes = [check_estate(own, request.rules, request.limits) for own in _estates(chosen, live, request)]
        for item in merged_outcomes(outcomes).checked:
            place = item.finding.place
            key = (item.rule.code, place, item.finding.message)
            if place is not None and place.path in templates and key not in seen:
                seen.add(key)
                yield item


def suppressions_of(file: FileReading) -> Iterator[Suppression]:
    """Every suppression of a file: its comments' and its resources'."""
    document = file.document
    comments = document.comments
    alone = {comment.line for comment in comments if comment.own_line}
    lines = len(document.line_starts)
    behind: dict[int, int] = {}
    """The first line behind a comment of its own line that is none."""
    for line in sorted(alone, reverse=True):
        behind[line] = behind.get(line + 1, min(line + 1, lines))
    for comment in comments:
        line = behind[comment.line] if comment.own_line else comment.line
        place = document.place(document.offset(comment.line, comment.column))
        found = parse_suppression(comment.text, place, line)
        if found is not None:
            yield found
    for resource in file.pieces.accepted:
        yield from annotation_suppressions(resource)
    for topic in file.pieces.topics:
        if topic.ignored and topic.place:
            yield from resource_suppressions(topic.ignored, topic.place, f"topic {topic.name}")
    for broker in file.pieces.brokers:
        if broker.ignored and broker.place:
            yield from resource_suppressions(broker.ignored, broker.place, node_name(broker.id, broker.roles))


def _with_severity(item: RuleFinding, severities: Mapping[str, Severity]) -> RuleFinding:
    severity = severities.get(item.rule.code)
    return item if severity is None else replace(item, finding=replace(item.finding, severity=severity))


def _is_ignored(item: RuleFinding, request: LintRequest) -> bool:
    place = item.finding.place
    return place is not None and any(
        _pattern(glob).fullmatch(place.path) and any(fits(item.rule, selector) for selector in selectors)
        for glob, selectors in request.per_file_ignores
    )


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def _resources(estate: Estate) -> dict[str, int]:
    return {
        "cluster": len(estate.clusters),
        Subject.BROKER.value: sum(b.count for c in estate.clusters for b in c.brokers),
        Subject.TOPIC.value: sum(len(c.topics) for c in estate.clusters),
        Subject.AGENT.value: len(estate.agents),
        Subject.CONNECTOR.value: len(estate.connectors),
    }


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in given or () for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class LintChoice:
    """The choices of the command line; None and empty where it says nothing."""

    each: bool = option(
        False, "--each", help="Judge each file on its own, and pass over files of other tools, as in a pre-commit hook."
    )
    kafka_version: str | None = option(
        None,
        "--kafka-version",
        metavar="VERSION",
        help="Kafka's version if the files do not tell; otherwise it is assumed by their settings.",
    )
    nearest_version: bool = option(
        False,
        "--nearest-version",
        help="Judge a version that lint has no table for as the nearest it has, without fixes.",
    )
    target_version: str | None = option(
        None, "--target-version", metavar="VERSION", help="Report what an upgrade to this version breaks or changes."
    )
    env: str | None = option(
        None, "--env", metavar="NAME", help="Environment if the files do not tell: prod, staging, dev."
    )
    assume: AssumedDefaults | None = option(
        None,
        "--assume",
        help="What counts for settings of brokers that no file tells: Kafka's defaults, named in findings, or none.",
    )
    rule_set: RuleSet | None = option(
        None, "--rules", help="Set of rules; core if neither this nor the configuration sets it."
    )
    select: tuple[str, ...] = parsed_option(
        None,
        "--select",
        parse=_names,
        typed=REPEATED,
        metavar="RULE,...",
        help="Run only these rules: codes, prefixes (KKR), names, ALL. Repeatable.",
    )
    extend: tuple[str, ...] = parsed_option(
        None,
        "--extend-select",
        parse=_names,
        typed=REPEATED,
        metavar="RULE,...",
        help="Also run these rules. Repeatable.",
    )
    ignore: tuple[str, ...] = parsed_option(
        None, "--ignore", parse=_names, typed=REPEATED, metavar="RULE,...", help="Skip these rules. Repeatable."
    )
    fail_on: FailOn | None = option(
        None, "--fail-on", help="Exit 1 if there are findings of this severity or worse; default: warning."
    )


def lint_request(
    given: LintChoice, config: LintConfig, today: date, baseline: Baseline | None = None, baseline_path: str = ""
) -> LintRequest:
    """The request: the command line's choices before those of the configuration.

    Raises `UsageError` for a selector of the command line that fits no rule.
    """
    settings = config.settings
    rule_set = given.rule_set or settings.rules or RuleSet.CORE
    selection = RuleSelection(
        rule_set=rule_set,
        select=given.select,
        extend=(*given.extend, *settings.select),
        ignore=(*given.ignore, *settings.ignore),
    )
    return LintRequest(
        rules=selected_rules(config.rules, selection),
        known=config.rules,
        assemble=AssemblyOptions(
            kafka_version=given.kafka_version or settings.kafka_version,
            target_version=given.target_version or settings.target_version,
            env=given.env or settings.env,
            nearest_version=given.nearest_version,
            assume_defaults=(given.assume or settings.assume) is not AssumedDefaults.NONE,
        ),
        today=today,
        limits=config.limits(rule_set),
        severities=config.severities(),
        per_file_ignores=tuple(settings.per_file_ignores.items()),
        baseline=baseline,
        baseline_path=baseline_path,
        problems=config.problems,
        docs_url=settings.docs_url,
        each=given.each,
    )


def fail_on_of(given: LintChoice, config: LintConfig) -> FailOn:
    """From which severity on the run fails: warnings unless someone chose otherwise."""
    return given.fail_on or config.settings.fail_on or FailOn.WARNING


def check_problems(problems: Iterable[FileProblem], rules: Mapping[str, LintRule]) -> Iterator[RuleFinding]:
    """Each problem as a finding of its rule, where that rule is among `rules` (by code)."""
    for problem in problems:
        rule = rules.get(problem.rule)
        if rule is None:
            continue
        where = sanitize(f"file {problem.place.path}")
        yield RuleFinding(
            Finding(
                rule=rule.code,
                name=rule.name,
                severity=rule.severity,
                message=sanitize(problem.message),
                where=where,
                hint="",
                fingerprint=fingerprint_of(rule.code, where, problem.key or "", ""),
                place=problem.place,
            ),
            rule,
            problem.edits,
            anchor=Anchor(problem.key, problem.place) if problem.key is not None else None,
        )


def fix_of(checked: RuleFinding) -> Fix:
    """Whether this very finding can be fixed, and how safely."""
    if not checked.edits or checked.anchor is None:
        return Fix.NONE
    return Fix.SAFE if all(edit.is_safe for edit in checked.edits) else Fix.UNSAFE


MOST_KEPT = 100


class KeptFindings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run over a live cluster found, as it is kept for those who look at the cluster later.

    `errors` are the first of them as `CODE PLACE`; `at_s` is in seconds since 1970.
    """

    schema: int = 1
    at_s: float
    errors: tuple[str, ...] = ()
    number_of_errors: int = 0
    warnings: int = 0


def kept_findings(findings: Sequence[Finding], at_s: float) -> bytes:
    """The file that is kept of a run."""
    errors = [f"{f.rule} {f.where}" for f in findings if f.severity is Severity.ERROR]
    kept = KeptFindings(
        at_s=at_s,
        errors=tuple(errors[:MOST_KEPT]),
        number_of_errors=len(errors),
        warnings=sum(f.severity is Severity.WARNING for f in findings),
    )
    return msgspec.json.encode(kept) + b"\n"


def read_kept_findings(data: bytes) -> KeptFindings | None:
    """What was kept; None for a damaged file and for one of a later version."""
    try:
        found = decode_json(data, KeptFindings, "findings")
    except InputError:
        return None
    return found if found.schema == 1 else None
