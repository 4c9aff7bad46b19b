"""What one run of lint was asked for, as a value: the command line's part, before the lint configuration is read."""

from dataclasses import dataclass
from datetime import date

from kafkakit.core.findings import FailOn
from kafkakit.lint.decide.assemble import AssemblyOptions
from kafkakit.lint.decide.baseline import Baseline
from kafkakit.lint.decide.decision import LintRequest
from kafkakit.lint.decide.lint_config import LintConfig
from kafkakit.lint.decide.selection import RuleSet, Selection, selected_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The choices of the command line; None and empty where it says nothing."""

    today: date
    rule_set: RuleSet | None = None
    select: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: FailOn | None = None
    kafka_version: str | None = None
    target_version: str | None = None
    env: str | None = None


def lint_request(given: RunOptions, config: LintConfig, baseline: Baseline | None, baseline_path: str) -> LintRequest:
    """The request: the command line's choices before those of the configuration.

    Raises `UsageError` for a selector of the command line that fits no rule.
    """
    settings = config.settings
    rule_set = given.rule_set or settings.rules or RuleSet.CORE
    selection = Selection(
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
        ),
        today=given.today,
        limits=config.limits(rule_set),
        severities=config.severities(),
        per_file_ignores=tuple(settings.per_file_ignores.items()),
        baseline=baseline,
        baseline_path=baseline_path,
        problems=config.problems,
        docs_url=settings.docs_url,
    )


def fail_on_of(given: RunOptions, config: LintConfig) -> FailOn:
    """From which severity on the run fails: warnings unless someone chose otherwise."""
    return given.fail_on or config.settings.fail_on or FailOn.WARNING
