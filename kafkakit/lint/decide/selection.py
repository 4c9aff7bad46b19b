"""Which rules run: sets of rules, codes, prefixes of codes and names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.errors import UsageError
from kafkakit.rules.rule import Limits, LintRule


class RuleSet(StrEnum):
    """Ready sets of rules: `core` has no finding on a sound cluster, `strict` has all rules."""

    CORE = "core"
    STRICT = "strict"
    DATADOG_SCALE = "datadog-scale"


LIMITS_OF: dict[RuleSet, Limits] = {
    RuleSet.CORE: Limits(),
    RuleSet.STRICT: Limits(strict=True),
    # Segments of 12 h at a day's retention, many partitions a broker, as Datadog describes its clusters.
    RuleSet.DATADOG_SCALE: Limits(overshoot_ratio=0.51, partitions_per_broker=2_000, strict=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was asked for: `select` adds to the set or, on the command line, replaces it; `ignore` wins over both."""

    rule_set: RuleSet = RuleSet.CORE
    select: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def selected_rules(rules: Sequence[LintRule], selection: Selection) -> tuple[LintRule, ...]:
    """The rules to run, by code; `UsageError` names a selector that fits no rule, with the nearest ones."""
    for selector in (*selection.select, *selection.extend, *selection.ignore):
        if not any(fits(rule, selector) for rule in rules):
            raise UsageError(
                f"no rule fits {selector!r:.60}{suggestion(rules, selector)}", hint="--list-rules names all"
            )
    chosen = [rule for rule in rules if _is_chosen(rule, selection)]
    return tuple(rule for rule in chosen if not any(fits(rule, selector) for selector in selection.ignore))


def fits(rule: LintRule, selector: str) -> bool:
    """True for the rule's code, its name, a prefix of its code with the family (`KKR`, `KKR2`), and `ALL`."""
    wanted = selector.strip()
    if wanted.lower() == rule.name or wanted.upper() == "ALL":
        return True
    return len(wanted) >= 3 and rule.code.startswith(wanted.upper())


def suggestion(rules: Iterable[LintRule], selector: str) -> str:
    """`; did you mean X?` for a mistyped code or name, else nothing."""
    from difflib import get_close_matches

    known = list(_names(rules))
    near = get_close_matches(selector.strip().lower(), known, n=1, cutoff=0.6)
    near = near or get_close_matches(selector.strip().upper(), known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def _names(rules: Iterable[LintRule]) -> Iterator[str]:
    for rule in rules:
        yield rule.code
        yield rule.name


def _is_chosen(rule: LintRule, selection: Selection) -> bool:
    if selection.select:
        return any(fits(rule, selector) for selector in (*selection.select, *selection.extend))
    in_set = rule.is_core or selection.rule_set is not RuleSet.CORE
    return in_set or any(fits(rule, selector) for selector in selection.extend)
