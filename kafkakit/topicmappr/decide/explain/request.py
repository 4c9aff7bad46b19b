"""Which partition of a plan is meant: `orders/3` or `orders-3`."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def find_partition(plan: Plan, text: str) -> TopicPartition:
    """The partition of the plan that `text` names; raises `UsageError` with close names when there is none."""
    numbers: dict[str, list[int]] = {}
    for entry in plan.scope:
        numbers.setdefault(entry.topic, []).append(entry.partition)
    readings = [split for mark in "/-" if (split := _split(text, mark))]
    for topic, number in readings:
        if number in numbers.get(topic, ()):
            return TopicPartition(topic, number)
    for topic, number in readings:
        if topic in numbers:
            raise UsageError(
                f"partition {number} of {topic} is not in this plan",
                hint=f"its partitions in the plan are {_ranges(numbers[topic])}",
            )
    if not readings and text not in numbers:
        raise UsageError(f"{text!r:.80} is not a partition", hint="write it like orders/3 or orders-3")
    if text in numbers:
        raise UsageError(f"{text} is a topic", hint=f"name a partition of it, such as {text}/{min(numbers[text])}")
    close = get_close_matches(readings[0][0], sorted(numbers), n=3, cutoff=0.5)
    hint = f"did you mean {some(close)}?" if close else f"the plan's topics are {some(sorted(numbers))}"
    raise UsageError(f"topic {readings[0][0]!r:.80} is not in this plan", hint=hint)


def _split(text: str, mark: str) -> tuple[str, int] | None:
    topic, found, number = text.rpartition(mark)
    return (topic, int(number)) if found and topic and _NUMBER.fullmatch(number) else None


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers as ranges: `0-7, 9`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return some(str(low) if low == high else f"{low}-{high}" for low, high in parts)
