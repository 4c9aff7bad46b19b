"""The dialect of confluentinc/parallel-consumer: a map of done offsets, relative to the offset it is committed with."""

from collections.abc import Iterator

from kafkakit.core.findings import Severity
from kafkakit.streams.formats.dialects.dialect import Dialect, EncodedMetadata, EncodeRequest
from kafkakit.streams.formats.dialects.facts import CommitFacts, CopiedFrom
from kafkakit.streams.formats.dialects.hazard import Hazard
from kafkakit.streams.formats.dialects.mirrormaker import skipped_by_copy
from kafkakit.streams.formats.dialects.parallel_consumer.decode import NAME, read_parallel_consumer
from kafkakit.streams.formats.dialects.parallel_consumer.encode import CLIENT_LIMIT_CHARS, write_parallel_consumer
from kafkakit.streams.formats.dialects.parallel_consumer.layout import ENCODINGS
from kafkakit.streams.formats.printable import amount

PRESSURE_CHARS = 3072
"""Three quarters of what the client takes for the limit: with a larger map it takes no new records."""
MOST_STEPS = 200_000
"""Work spent on the exact number of records that a copied map skips."""
_WITHOUT_MAP = "before parallel-consumer starts here, drop the map, which gives duplicates and no loss: {}"


def _write(request: EncodeRequest) -> EncodedMetadata:
    metadata = write_parallel_consumer(request.state, limit_chars=request.limit_chars)
    if metadata is None:
        return EncodedMetadata(text="", fits=False)
    is_large = len(metadata) > PRESSURE_CHARS
    warning = f"the map has {len(metadata)} characters: above {PRESSURE_CHARS} it takes no new records"
    return EncodedMetadata(text=metadata, warnings=(warning,) if is_large else ())


def _effect_of_size(facts: CommitFacts) -> str:
    if facts.chars <= PRESSURE_CHARS:
        return ""
    return "; parallel-consumer takes no new records of this partition, and above 4,096 it drops the whole map"


def _effect_of_nul(facts: CommitFacts) -> str:
    """Java clients cannot read base64 with the NUL that librdkafka adds; the reader of this module drops it."""
    done = facts.state.done.count
    return f"parallel-consumer cannot read the map, and processes all {done:,} done records again"


def _hazards(facts: CommitFacts) -> Iterator[Hazard]:
    yield from _beyond_end(facts)
    yield from _copied(facts)


def _beyond_end(facts: CommitFacts) -> Iterator[Hazard]:
    """Done offsets that the log does not hold are those of another log: only a copy brings them here."""
    state, span = facts.state, facts.span
    if span is None or facts.done_beyond_end == 0:
        return
    yield _shifted(
        facts,
        f"the map calls {amount(facts.done_beyond_end, 'offset')} beyond the log's end done, so it was written for "
        f"other offsets, and a copy by MirrorMaker 2 does that: {_reader(facts)} would skip up to "
        f"{amount(state.done.within(span.start, span.end).count, 'record')} never processed, and later ones as they "
        "come",
    )


def _copied(facts: CommitFacts) -> Iterator[Hazard]:
    copy = facts.copied_from
    most = 0 if copy is None or not facts.state.done else skipped_at_most(facts, copy)
    if copy is not None and most:
        yield _shifted(
            facts,
            f"MirrorMaker 2 copied this map from offset {copy.upstream_offset} of {copy.source} onto offset "
            f"{facts.offset}, and it counts from the offset it is committed with: {_reader(facts)} would skip up to "
            f"{amount(most, 'record')} never processed",
        )


def _reader(facts: CommitFacts) -> str:
    return "without the NUL at its end parallel-consumer" if facts.has_nul else "parallel-consumer"


def _shifted(facts: CommitFacts, message: str) -> Hazard:
    return Hazard(
        rule="shifted-map",
        severity=Severity.ERROR,
        message=message,
        hint=_WITHOUT_MAP.format(facts.command("translate", "--to plain")),
    )


def skipped_at_most(facts: CommitFacts, copy: CopiedFrom) -> int:
    """How many pending records a copied map calls done: exact where an offset sync gives the true place, else the
    most that can be, which is all that the map calls done."""
    ceiling = facts.state.done.count
    if copy.place_low is None or copy.place_high is None:
        return ceiling
    places = range(copy.place_low, copy.place_high + 1)
    if len(places) * len(facts.state.done.ranges) > MOST_STEPS:
        return ceiling
    return min(ceiling, max(skipped_by_copy(facts.reading, place, facts.offset).count for place in places))


PARALLEL_CONSUMER = Dialect(
    name=NAME,
    first_bytes=frozenset(ENCODINGS),
    decode=read_parallel_consumer,
    encode=_write,
    word="pc",
    forms=("pc",),
    about_forms="pc for parallel-consumer's map",
    client_limit_chars=CLIENT_LIMIT_CHARS,
    when_too_large="that client would drop the whole map; translate --to plain forgets it knowingly",
    reader="parallel-consumer",
    noun="map of parallel-consumer",
    holds_done=True,
    counts_from_offset=True,
    effect_of_size=_effect_of_size,
    effect_of_nul=_effect_of_nul,
    hazards=_hazards,
)
