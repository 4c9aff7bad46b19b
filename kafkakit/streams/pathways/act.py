"""Reading the newest records of topics for their pathways. Writes nothing and joins no group.

Cost: that of `streams records`, up to 10,000 records or 64 MiB of one partition at a time; 50,000 small records take a
second of CPU.
"""

from datetime import timedelta

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError, TryLaterError, UsageError
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.streams.pathways.decide import PathwaySample, SampleRequest, TopicSample, first_offset
from kafkakit.streams.records.api_act import RecordReader

SLICE = 10_000
"""Each slice is parsed from the start of a fetch on, so short ones parse records again and again."""

MOST_PROBLEMS = 3
"""Reading stops after this many partitions that cannot be read: each may cost a time limit."""


def read_pathways(log: LogReader, reader: RecordReader, clock: Clock, request: SampleRequest) -> PathwaySample:
    """Sum up the pathways of the newest records of each topic, spread evenly over its partitions.

    Raises `UsageError` for a topic that does not exist. A partition that cannot be read is a problem of the sample.
    """
    places = log.places(request.topics)
    for topic in request.topics:
        if topic not in places:
            raise UsageError(f"topic {printable(topic)} does not exist")
    keys = {topic: [TopicPartition(topic, p) for p in sorted(places[topic].leaders)] for topic in request.topics}
    every = [key for topic in keys for key in keys[topic]]
    spans, since = log.spans(every), _since(log, clock, every, request)
    samples = {topic: TopicSample(topic) for topic in keys}
    problems: list[KafkakitError] = []
    for key in every:
        span, share = spans[key], -(-request.records // len(keys[key.topic]))
        try:
            if isinstance(span, ItemError):
                raise TryLaterError(f"the ends of {printable(str(key))} cannot be read: {span}")
            begin = first_offset(span, share, since.get(key), has_since=request.since_s is not None)
            _read(reader, key, begin, span, samples[key.topic], epoch_ms(clock.now()))
        except KafkakitError as error:
            problems.append(error)
            if len(problems) >= MOST_PROBLEMS:
                break
    return PathwaySample(topics=tuple(samples.values()), problems=tuple(problems))


def _since(
    log: LogReader, clock: Clock, keys: list[TopicPartition], request: SampleRequest
) -> dict[TopicPartition, int | ItemError | None]:
    if request.since_s is None:
        return {}
    at_ms = epoch_ms(clock.now() - timedelta(seconds=request.since_s))
    return dict(log.offsets_at(dict.fromkeys(keys, at_ms)))


def _read(
    reader: RecordReader, key: TopicPartition, begin: int, span: LogSpan, sample: TopicSample, now_ms: int
) -> None:
    at = begin
    while at < span.end:
        found = reader.read(key, at, min(SLICE, span.end - at))
        for entry in found.entries:
            sample.add(entry, now_ms)
        if not found.entries:
            return
        at = found.entries[-1].last + 1
