"""What a metadata string means, whoever wrote it: the one way that strings are read."""

from dataclasses import replace

from kafkakit.streams.formats.commit import CommitState, Dialect, Reading
from kafkakit.streams.formats.dialects.commit_text import CommitText, canonical_base64
from kafkakit.streams.formats.dialects.kafka_streams import read_kafka_streams
from kafkakit.streams.formats.dialects.parallel_consumer import read_parallel_consumer
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.decode import read_kkm1
from kafkakit.streams.formats.kkm1.text import MARK


def read_metadata(text: str, offset: int, identity: CommitIdentity | None = None) -> Reading:
    """What `text` means for the offset that it was committed with; never raises, for any text.

    Trailing NULs, which some clients add, count in `chars` and nowhere else. "" is PLAIN. The sign and then the first
    byte decide the dialect, and the whole payload has to be just as that dialect writes it: what is not, is OPAQUE,
    and `reason` says what it nearly was. Cost: linear in the text, and bounded for what a compressed payload holds.
    """
    source = CommitText.of(text, offset)
    if not source.text:
        return Reading(dialect=Dialect.PLAIN, state=CommitState(base=offset), chars=source.chars)
    if source.text.startswith(MARK):
        return replace(read_kkm1(source.text, offset, identity), chars=source.chars)
    data = canonical_base64(source.text)
    if data is None:
        return source.opaque()
    return read_kafka_streams(source, data) or read_parallel_consumer(source, data) or source.opaque()
