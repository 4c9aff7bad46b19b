"""What a consumer gives up, in the lane `dlq` of its own stream."""

import json
from collections.abc import Callable

from kafkakit.core.deliveries import Headers
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.streams.client.dead_letters import RejectedRecord
from kafkakit.streams.client.decide.send_errors import NotAcknowledgedError, RecordRefusedError, RecordTooLargeError
from kafkakit.streams.client.options import LeftOut
from kafkakit.streams.client.producer import Producer
from kafkakit.streams.client.records import RecordOrigin
from kafkakit.streams.model.guarded_reads import BatchVerdict, GuardedRead, VerdictKind
from kafkakit.streams.model.provenance import RecordFailure, provenance_headers
from kafkakit.streams.model.provenance import RecordOrigin as Place
from kafkakit.streams.model.route import DLQ

WRITE_S = 30.0
LEFT_OUT_HEADER = "kafkakit-left-out-bytes"
LEFT_OUT_HEADERS_HEADER = "kafkakit-left-out-headers"
BOMB_REASON, CORRUPT_REASON = "batch too large", "batch corrupt"
BATCH_LIMIT_BYTES = 16 << 20
"""What a batch may become: members of groups decode more than this, and producers write no more by default."""
_FETCH_BYTES, _FETCH_MS = 1 << 20, 1_000


class DeadLetterLane:
    """A `RejectSink`: each record goes to the lane with the headers it had and those of its provenance.

    A value that does not fit with these headers is left out, and so are headers that no producer of streams writes: a
    header counts the bytes, or the headers, and they stay where the provenance says they are.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __call__(self, rejected: RejectedRecord) -> None:
        """Write a record and wait until all in-sync replicas have it."""
        record = rejected.record
        here = place_of(record.origin, record.offset, rejected.epoch, record.timestamp_ms)
        failure = failure_in(rejected)
        headers = provenance_headers(record.headers, here, failure)
        own = provenance_headers((), here, failure)
        try:
            try:
                self.write(record.value, record.key, headers)
            except RecordTooLargeError:
                raise
            except RecordRefusedError:  # another client wrote headers that this one does not
                left_out = (LEFT_OUT_HEADERS_HEADER, b"%d" % len(record.headers))
                self.write(record.value, record.key, (*own, left_out))
        except (RecordTooLargeError, NotAcknowledgedError) as error:
            if isinstance(error, NotAcknowledgedError) and "MSG_SIZE_TOO_LARGE" not in str(error):
                raise
            left_out = (LEFT_OUT_HEADER, b"%d" % (len(record.value or b"") + len(record.key or b"")))
            self.write(None, None, (*own, left_out))

    def write(self, value: bytes | None, key: bytes | None, headers: Headers) -> None:
        """Write a record to the lane; raises what `Delivery.result` raises."""
        record = self._producer.prepared(value, key, headers=headers)
        self._producer.send_record(record, lane=DLQ, wait_s=WRITE_S).result(WRITE_S)


class BatchGuard:
    """Judges a batch that the client could not decode, unless that was done, and notes in the lane what is passed over.

    The note has the provenance of the batch's first record and, as JSON, the offsets and what the headers tell. The
    batch itself stays in the log until retention deletes it; `kafkakit streams bombs quarantine` keeps it longer.
    """

    def __init__(self, open_log: Callable[[str], LogReader], lane: DeadLetterLane, group: str, clock: Clock) -> None:
        self._open_log, self._lane, self._group, self._clock = open_log, lane, group, clock

    def __call__(
        self, origin: RecordOrigin, offset: int, epoch: int, verdict: BatchVerdict | None = None
    ) -> LeftOut | None:
        """None where the batch does not show why it cannot be decoded."""
        verdict = verdict or self._verdict(origin, offset)
        if verdict is None:
            return None
        at_ms = verdict.batch.max_ms if verdict.batch is not None else None
        first = max(offset, verdict.start)
        note = {
            "first_offset": first,
            "last_offset": verdict.end - 1,
            "kind": verdict.kind.value,
            "bytes": verdict.size,
            "at_most_bytes": verdict.at_most_bytes,
            "reason": verdict.reason,
        }
        failure = RecordFailure(
            group=self._group,
            reason=CORRUPT_REASON if verdict.kind is VerdictKind.CORRUPT else BOMB_REASON,
            at_ms=int(self._clock.now().timestamp() * 1000),
            error_text=str(note),
        )
        headers = provenance_headers((), place_of(origin, first, epoch, at_ms), failure)
        self._lane.write(json.dumps(note, separators=(",", ":")).encode(), None, headers)
        return LeftOut(next_offset=verdict.end)

    def _verdict(self, origin: RecordOrigin, offset: int) -> BatchVerdict | None:
        log = self._open_log(origin.source.cluster_id)
        fetched = log.fetch({origin.partition: offset}, max_bytes=_FETCH_BYTES, wait_ms=_FETCH_MS)[origin.partition]
        read = GuardedRead(fetched=fetched, start=offset, limit_bytes=BATCH_LIMIT_BYTES)
        return next(read.pieces()).verdict


def place_of(origin: RecordOrigin, offset: int, epoch: int, at_ms: int | None) -> Place:
    """Where a record lies, as its provenance tells it."""
    source = origin.source
    return Place(
        stream=origin.stream,
        lane=source.lane,
        segment=source.segment,
        epoch=epoch,
        cluster_id=source.cluster_id,
        topic=source.topic,
        partition=origin.partition.partition,
        offset=offset,
        at_ms=at_ms,
    )


def failure_in(rejected: RejectedRecord) -> RecordFailure:
    """Why a record was rejected, as its provenance tells it."""
    return RecordFailure(
        group=rejected.group,
        reason=rejected.reason,
        at_ms=rejected.at_ms,
        tries=rejected.tries,
        error_class=rejected.error,
        error_text=rejected.text,
    )
