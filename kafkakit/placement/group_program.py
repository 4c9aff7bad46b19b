"""The rule of groups as constraints of an integer program, for one partition at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafkakit.placement.group_numbers import NumberedGroups


def add_group_rule(
    program: Any,
    groups: NumberedGroups,
    inside: Mapping[int, Any],
    before: Sequence[int],
    *,
    openings: int,
    may_leave_open: bool,
) -> Any | None:
    """Constrain how many copies of a set each group holds; returns whether the set breaks the rule, if it may at all.

    `inside` are the copies by group number as linear expressions, `before` the groups of the set as it was, with
    `openings` copies to come beside it. With `may_leave_open` copies may end unplaced. A set that broke the rule may
    continue breaking it, and gets no worse.
    """
    rule, count = groups.rule, {g: before.count(g) for g in inside}
    copies = len(before) + openings
    broken = program.new_bool_var("")
    may_break = groups.violates(before, openings)
    if not may_break:
        program.add(broken == 0)
    real = [g for g in inside if g < groups.count]
    if rule.spreads:
        _spread(program, groups, inside, count, copies, broken, may_leave_open=may_leave_open)
    elif not rule.may_repeat:
        for g in real:
            program.add(inside[g] <= 1 + max(0, count[g] - 1) * broken)
    else:
        used = {g: program.new_bool_var("") for g in real}
        repeats = program.new_bool_var("")
        for g in real:
            program.add(used[g] <= inside[g])
            program.add(inside[g] <= 1).only_enforce_if(repeats.negated())
        program.add(sum(used.values()) >= rule.min_groups).only_enforce_if(repeats, broken.negated())
        # A set that broke the rule spans no fewer groups than before, and each opening filled adds one.
        distinct: Any = sum(1 for g in real if count[g])
        if openings:
            distinct += sum(inside[g] - count[g] for g in real)
        program.add(sum(used.values()) >= distinct).only_enforce_if(repeats, broken)
    return broken if may_break else None


def _spread(
    program: Any,
    groups: NumberedGroups,
    inside: Mapping[int, Any],
    count: Mapping[int, int],
    copies: int,
    broken: Any,
    *,
    may_leave_open: bool,
) -> None:
    """Groups hold the most or one less, but for copies that are not placed; in a set that broke that before, a group
    holds no more than before or than its share.
    """
    top = program.new_int_var(0, copies, "")
    lacks: list[Any] = []
    for g in groups.spread:
        held = inside.get(g, 0)
        lacks.append(program.new_int_var(0, copies, "") if may_leave_open else 0)
        program.add(held <= top).only_enforce_if(broken.negated())
        program.add(held + lacks[-1] >= top - 1).only_enforce_if(broken.negated())
        if g in inside:
            program.add(held <= max(groups.rule.share(copies), count[g]))
    if may_leave_open:
        program.add(sum(lacks) <= copies - sum(inside.values())).only_enforce_if(broken.negated())
