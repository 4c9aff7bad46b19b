"""What changed between two looks, as lines."""

from collections.abc import Mapping

from kafkakit.streams.lag.decide.measure.figures import range_text, span_text
from kafkakit.streams.lag.decide.measure.status import LagStatus
from kafkakit.streams.lag.decide.views.views import LagView, ViewLine

Statuses = Mapping[tuple[str, ...], LagStatus]


def statuses_of(view: LagView) -> dict[tuple[str, ...], LagStatus]:
    """The status of each line by its names."""
    return {_names(line): line.status for line in view.lines}


def change_lines(before: Statuses, view: LagView) -> tuple[str, ...]:
    """A sentence for each line whose status is another one than before; of new lines, for those that are not well."""
    found = []
    for line in view.lines:
        earlier = before.get(_names(line), LagStatus.OK)
        if line.status is not earlier:
            found.append(
                f"{' '.join(_names(line))}: {earlier.word} -> {line.status.word}, {line.lag:,} behind, "
                f"{span_text(line.backlog.estimate_ms)} {range_text(line.backlog)}"
            )
    return tuple(found)


def _names(line: ViewLine) -> tuple[str, ...]:
    partition = "" if line.partition < 0 else str(line.partition)
    return tuple(word for word in (line.cluster, line.group, line.stream or line.topic, partition) if word)
