"""The report of an explanation."""

from collections.abc import Iterator, Sequence

from kafkakit.core.lists_in_words import some
from kafkakit.core.printable import printable
from kafkakit.core.quantities import format_bytes
from kafkakit.report.blocks import INDENT, attributes, optional_section
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.explain.decision import Explanation
from kafkakit.topicmappr.decide.explain.reasons import Reason
from kafkakit.topicmappr.show.plan_blocks import ids

_SINGLY = 4


def explain_report(found: Explanation) -> Report:
    """A partition's fate and the reasons, with one row a broker."""
    parts = (("leaves", found.leaving), ("comes", found.coming), ("not-there", found.others))
    return Report(
        command="topicmappr explain",
        data=explanation_data(found),
        text=explanation_text(found),
        columns=("broker", "part", "kind", "words"),
        rows=tuple((r.broker, part, r.kind, r.words) for part, reasons in parts for r in reasons),
    )


def explanation_text(found: Explanation) -> str:
    """The explanation for people; brokers that are refused for one and the same reason stand on one line."""
    return "".join(f"{printable(line)}\n" for line in _lines(found))


def _lines(found: Explanation) -> Iterator[str]:
    size = f" ({format_bytes(found.size_bytes)})" if found.size_bytes is not None else ""
    yield f"{found.key.topic} p{found.key.partition}{size}: {ids(found.before)} -> {ids(found.after)} {found.outcome}"
    if found.now is not None:
        shown = ids(found.now) if found.now else "no such partition"
        yield f"{INDENT}the cluster shows another list now: {shown}; the plan is out of date"
    yield from (INDENT + line for line in found.whole)
    yield from (f"{INDENT}warning: {line}" for line in found.warnings)
    for title, reasons in (("Leaves:", found.leaving), ("Comes:", found.coming)):
        yield from optional_section(title, [f"{r.broker}: {r.words}" for r in reasons])
    yield from optional_section("Not on the other brokers:", list(_grouped(found.others)))


def _grouped(reasons: Sequence[Reason]) -> Iterator[str]:
    """One line for brokers with the same words; many of a kind with their own words each are summed up."""
    same: dict[tuple[str, str], list[int]] = {}
    for reason in reasons:
        same.setdefault((reason.kind, reason.words), []).append(reason.broker)
    kinds: dict[str, list[tuple[str, list[int]]]] = {}
    for (kind, words), brokers in same.items():
        kinds.setdefault(kind, []).append((words, brokers))
    for kind, rows in kinds.items():
        yield from (f"{some(brokers)}: {words}" for words, brokers in rows[:_SINGLY])
        rest = [b for _, brokers in rows[_SINGLY:] for b in brokers]
        if rest:
            yield f"{some(rest)}: {kind} too (each with its figures in -o json)"


def explanation_data(found: Explanation) -> dict[str, object]:
    """The explanation for JSON and YAML."""
    return {
        "topic": found.key.topic,
        "partition": found.key.partition,
        **attributes(found, "before after now size_bytes outcome"),
        "summary": found.whole,
        **attributes(found, "leaving coming others warnings"),
    }
