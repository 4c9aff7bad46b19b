"""The audit `bombs`: which batches expand beyond what their readers take. The rules are lint's KKM409 and KKM410."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafkakit.core.findings import AuditFinding
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.rules.audits.lint import topic_findings_of_lint
from kafkakit.rules.families.messages_data import decompression_budget, rdkafka_undecodable_batch
from kafkakit.rules.rdkafka import RECEIVE_MESSAGE_MAX_BYTES
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import BatchFacts, TopicFacts

JOB = "bombs"
MAX_BATCHES = 1_000
"""The largest batches of a topic that are looked at one by one."""
SURE_BYTES = 1 << 20
"""From this size on a bound is within an eighth of the true size: it is off by a block of 128 KiB at most."""
_SIZE = "max.message.bytes"


def limits_of(text: str) -> tuple[int, ...]:
    """The settings of `receive.message.max.bytes` to judge by: numbers with commas between; librdkafka's default."""
    found = tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    return found or (RECEIVE_MESSAGE_MAX_BYTES,)


def least_undecodable(limit: int) -> int:
    """A zstd batch of at most this many bytes, decompressed, is read with a limit that its compressed size permits.

    The sizes tried grow threefold, or by 4,000 bytes: the last one within the limit is above a third of it.
    """
    return max((limit - 4_000) // 3, 0)


def topic_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a topic: the row has its largest `batches`, `ratio`, `max_message_bytes`, the `limits` of
    clients as text, `memory_bytes` of a consumer, and `large_batches` above that."""
    named = (row["cluster"], row["topic"])
    memory = Limits(consumer_memory_bytes=row["memory_bytes"])
    batches: Sequence[Mapping[str, Any]] = row["batches"] or []
    if row["large_batches"]:
        yield _above_memory(row, batches[0])
    elif row["ratio"] is not None:
        facts = TopicFacts(compression_ratio=round(row["ratio"], 1))
        settings = {_SIZE: str(row["max_message_bytes"])}
        yield from topic_findings_of_lint(JOB, decompression_budget, named, facts, memory, settings=settings)
    facts = TopicFacts(
        batches=tuple(
            BatchFacts(
                partition=b["partition"], offset=b["base_offset"], compressed_bytes=b["compressed_bytes"],
                decompressed_bytes=b["decompressed_bytes"], content_size=b["content_size"], codec=b["codec"],
            )
            for b in batches
        )
    )  # fmt: skip
    for limit in limits_of(row["limits"]):
        rule, limits = rdkafka_undecodable_batch, Limits(receive_message_bytes=limit)
        apart = "" if limit == RECEIVE_MESSAGE_MAX_BYTES else str(limit)
        for found in topic_findings_of_lint(JOB, rule, named, facts, limits, apart=apart):
            yield replace(found, hint=f"{found.hint}{_producers(batches)}")


def _above_memory(row: Mapping[str, Any], worst: Mapping[str, Any]) -> AuditFinding:
    """KKM409 with a batch that was seen, in place of one that may come."""
    bound = "up to " if worst["is_bound"] else ""
    message = (
        f"{counted(row['large_batches'], 'batch', 'batches')} decompress to more than a consumer's "
        f"{format_bytes(row['memory_bytes'])}; the largest, partition {worst['partition']} offset "
        f"{worst['base_offset']}, from {worst['compressed_bytes']:,} to {bound}{worst['decompressed_bytes']:,} bytes"
    )
    # A ratio that breaks the rule gives lint's finding, with its place and fingerprint.
    facts = TopicFacts(compression_ratio=float(row["memory_bytes"]))
    limits = Limits(consumer_memory_bytes=row["memory_bytes"])
    named, settings = (
        (row["cluster"], row["topic"]),
        {_SIZE: str(row["max_message_bytes"])},
    )
    (found,) = topic_findings_of_lint(JOB, decompression_budget, named, facts, limits, settings=settings)
    hint = f"lower {_SIZE}, and batch.size of the producer{_producers(row['batches'])}"
    return replace(found, message=message, hint=hint, count=row["large_batches"], expected=None)


def _producers(batches: Sequence[Mapping[str, Any]]) -> str:
    ids = sorted({b["producer_id"] for b in batches if b["producer_id"] is not None and b["producer_id"] >= 0})
    return f" (producer ids {', '.join(map(str, ids[:5]))})" if ids else ""
