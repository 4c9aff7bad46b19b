"""Fetches that are whole: of every leader an answer, or the error that it gives none."""

from collections.abc import Mapping

from kafkakit.core.log_reads import Fetched
from kafkakit.core.model import TopicPartition
from kafkakit.ports.log import LogReader


def fetch_answers(
    log: LogReader, offsets: Mapping[TopicPartition, int], *, max_bytes: int, partition_bytes: int | None = None
) -> dict[TopicPartition, Fetched]:
    """Fetch what the logs hold now until each partition has an answer: one fetch may end before slow leaders answer.

    A leader that is silent is an error after 3 s. Cost: as a rule one request to each leader.
    """
    found: dict[TopicPartition, Fetched] = {}
    while left := {key: offset for key, offset in offsets.items() if key not in found}:
        answers = log.fetch(left, max_bytes=max_bytes, wait_ms=0, partition_bytes=partition_bytes)
        found |= {key: answer for key, answer in answers.items() if answer.answered}
    return dict(sorted(found.items()))
