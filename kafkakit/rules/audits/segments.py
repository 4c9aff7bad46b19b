"""The audits `segments` and `bombs`: their rules, thresholds and sentences on batches and segment files.

Evidence is what headers of batches and files show. Bombs are batches that expand beyond what their readers take; their
rules are lint's KKM409 and KKM410. For rules of lint a row becomes their subject, so that messages and fingerprints are
lint's.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding
from kafkakit.core.quantities import count_of, format_bytes, format_span
from kafkakit.rules.config_defs import NEWEST, config_table
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.engine import make_finding
from kafkakit.rules.families.messages import (
    RECEIVE_MESSAGE_MAX_BYTES,
    decompression_budget,
    rdkafka_undecodable_batch,
    timestamp_skew,
)
from kafkakit.rules.rule import Limits, LintRule
from kafkakit.rules.subjects import BatchFacts, LintCluster, LintTopic, TopicFacts

SEGMENTS_JOB = "segments"
FUTURE_MS = 3_600_000
"""Records stamped by more than this after the time they were looked at are in the future."""
OPEN_TRANSACTION_MS = 900_000
"""Kafka's default of `transaction.max.timeout.ms`: no open transaction is older for long."""
DEAD_MARGIN_MS = 300_000
"""Files of deleted segments and topics are dead this long after `file.delete.delay.ms`."""
BACKLOG_MS = 3_600_000
"""A closed segment of a compacted topic is compacted this long after its last append: cleaners look each 15 s."""
SWAP_MS = 86_400_000
"""Files that the cleaner writes are dead after a day."""
ABORTED_SHARE = 0.2
TINY_SHARE = 0.9
LEAST_BATCHES = 1_000
"""Shares of records and batches are judged from this many on."""
CHURN_FULL, CHURN_SEGMENTS = 0.05, 100
"""Segments that rolled by time at less than this part of `segment.bytes`, from so many of a replica on."""
MIXED_SHARE = 0.1
OVERSHOOT = 0.5
SIZE_FULL = 0.9
"""A closed segment of this part of `segment.bytes` rolled by size."""
LEAST_RECORD_BYTES = 7
"""The shortest record of a batch."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_RESTORE = (
    "move the replica to another broker and back with kafkakit reassign apply, so that it is copied from a sound one"
)


def _rule(number: int, name: str, severity: Severity, about: str, risk: str, repair: str) -> Rule:
    return Rule(name, severity, about, risk, repair, f"KKF{number:03d}")


PARTITION_RULES: Mapping[str, tuple[Rule, str]] = {
    "crc_failures": (
        _rule(1, "checksum-mismatch", _E, "batches match their checksums",
              "consumers fail at such a batch, and followers cannot copy it", _RESTORE),
        "batches that do not match their checksums: {n}",
    ),
    "damaged": (
        _rule(2, "damaged-segment", _E, "segments hold only batches",
              "the broker cuts the log there when it recovers, or fails", _RESTORE),
        "segments with bytes that are not a batch: {n}",
    ),
    "unreadable": (
        _rule(3, "unreadable-segment", _W, "segments can be read", "nothing is known of them",
              "look at the disk and at the permissions of the files"),
        "files or directories that cannot be read: {n}",
    ),
    "torn": (
        _rule(4, "torn-closed-segment", _E, "closed segments end with a whole batch",
              "records are lost between this segment and the next", _RESTORE),
        "closed segments that end inside a batch: {n}",
    ),
    "gaps": (
        _rule(5, "offset-gap", _E, "offsets of topics that are not compacted have no gaps",
              "records are missing", _RESTORE),
        "gaps in the offsets of a topic that is not compacted: {n}",
    ),
    "overlaps": (
        _rule(6, "offset-overlap", _E, "each offset is in one batch", "records are delivered twice, or out of order",
              _RESTORE),
        "batches that begin at offsets of earlier batches: {n}",
    ),
    "regressions": (
        _rule(7, "leader-epoch-regression", _W, "leader epochs do not fall along a log",
              "records of a former leader come after records of a later one, as after an unclean election",
              "compare the replicas: kafkakit doctor"),
        "times that the leader epoch falls along the log: {n}",
    ),
    "epoch_faults": (
        _rule(8, "leader-epoch-mismatch", _W, "batches have the epochs of leader-epoch-checkpoint",
              "followers cut their logs at wrong offsets", "delete the checkpoint while the broker is stopped"),
        "batches with another leader epoch than leader-epoch-checkpoint has: {n}",
    ),
    "index_faults": (
        _rule(9, "index-mismatch", _W, "index entries point at their batches",
              "searches by offset or time begin at a wrong place", "delete the index files of the stopped broker: they "
              "are rebuilt when it starts"),
        "entries of indexes that do not fit the log: {n}",
    ),
    "missing_indexes": (
        _rule(24, "missing-index", _W, "closed segments have an index of offsets and one of times",
              "a search for an offset or a time reads the whole segment", "stop the broker, delete what is left of the "
              "segment's .index and .timeindex, start it: both are made anew where .index is missing"),
        "closed segments without their .index or .timeindex: {n}",
    ),
    "lost_tails": (
        _rule(10, "log-shorter-than-recovery-point", _E, "logs reach to their recovery points",
              "records that were flushed are gone", _RESTORE),
        "logs that end before their recovery points: {n}",
    ),
    "open_transactions": (
        _rule(11, "open-transaction", _E, "transactions end within transaction.max.timeout.ms",
              "consumers of committed records stop there, and so does compaction",
              "kafka-transactions.sh find-hanging, then abort"),
        "a transaction has been open for {age}",
    ),
}  # fmt: skip
"""For each column of counts of a partition the rule it breaks, and the sentence."""
OF_COPY: frozenset[str] = frozenset(PARTITION_RULES) - {"gaps", "overlaps", "regressions", "open_transactions"}
"""The columns of what a copy suffers by itself; the others are in the records, which copies share."""

TOPIC_RULES: Mapping[str, tuple[Rule, str]] = {
    "is_aborted": (
        _rule(12, "aborted-records", _N, "few records are of aborted transactions", "they use disk and network",
              "look for producers that time out: transaction.timeout.ms"),
        "{aborted_records:,} of {records:,} records are of aborted transactions",
    ),
    "future_segments": (
        _rule(13, "future-timestamps", _W, "no record is stamped in the future",
              "its segment is not deleted before that time, and lag in time is wrong",
              "set message.timestamp.after.max.ms, and correct the clock of the producer"),
        "segments with records that are stamped in the future, by up to {ahead}: {future_segments:,}",
    ),
    "missing_times": (
        _rule(14, "missing-timestamps", _N, "batches have timestamps",
              "retention and searches by time go by the files' own times", "upgrade the producers"),
        "batches without timestamps: {missing_times:,} of {batches:,}",
    ),
    "empty_segments": (
        _rule(15, "empty-segments", _N, "closed segments hold batches", "each uses a descriptor and two maps", ""),
        "closed segments without a batch: {empty_segments:,}",
    ),
    "rolled_by_index": (
        _rule(16, "rolled-by-index", _W, "segments roll by size or time",
              "segments stay smaller than segment.bytes, and use more descriptors and maps",
              "raise segment.index.bytes, or index.interval.bytes"),
        "segments that rolled because an index was full: {rolled_by_index:,}",
    ),
    "is_churning": (
        _rule(17, "rolled-nearly-empty", _N, "segments are not rolled nearly empty",
              "many small segments use descriptors and maps", "raise segment.ms as far as retention permits"),
        "segments that rolled by time, at {time_full:.1%} of segment.bytes: {rolled_by_time:,}",
    ),
    "is_overshot": (
        _rule(18, "observed-overshoot", _W, "data is gone soon after its retention",
              "it uses disk, and is kept for longer than was asked for", "see the audit retention"),
        "partition {late_partition} holds records that are {age} old, with a retention of {retention}: {why}",
    ),
    "is_tiny": (
        _rule(19, "tiny-batches", _N, "producers fill their batches",
              "brokers and disks do the work of a batch for each record or two", "raise linger.ms and batch.size"),
        "{tiny_batches:,} of {batches:,} batches have less than 1 KiB, {single_record_batches:,} a single record",
    ),
    "is_mixed": (
        _rule(20, "mixed-codecs", _N, "producers of a topic use one codec",
              "some of them do not compress, or consumers need all codecs", "set compression.type of the producers"),
        "batches are {codecs}",
    ),
    "legacy_batches": (
        _rule(21, "legacy-batches", _N, "batches have format 2", "brokers convert them for each reader",
              "let them expire, or write them again"),
        "batches of formats 0 and 1: {legacy_batches:,}",
    ),
}  # fmt: skip
"""For each column of table `topics` that is true or above 0 the rule that is broken, and the sentence."""
DEAD = _rule(22, "dead-files", _W, "log dirs hold no files that no log uses", "they use disk",
             "remove them while the broker is stopped")  # fmt: skip
FOREIGN = _rule(23, "foreign-files", _N, "directories of partitions hold only Kafka's files",
                "a broker may fail on them, and they use disk", "move them away")  # fmt: skip
_AWAY = "make sure that nobody needs its records, stop the broker, move the directory out of the log dir, start it"
DIRECTORY_RULES: Mapping[str, tuple[Rule, str]] = {
    "unknown_topic": (
        _rule(25, "directory-of-unknown-topic", _W, "directories of partitions are of topics that the cluster has",
              "it uses disk until somebody removes it", _AWAY),
        "the cluster has no topic {topic}",
    ),
    "other_topic_id": (
        _rule(26, "directory-of-other-topic-id", _W, "partition.metadata has the id of the topic",
              "it is of an earlier topic of this name: the broker cannot use it for the partition", _AWAY),
        "its topic id is {topic_id}, the one of topic {topic} is {known_id}",
    ),
    "beyond_count": (
        _rule(27, "directory-beyond-partitions", _W, "directories are of partitions that the topic has",
              "it uses disk, and if the topic gets more partitions, a new one may begin with these records", _AWAY),
        "topic {topic} has no partition {partition}: it has {count}",
    ),
    "no_replica": (
        _rule(28, "directory-without-replica", _W, "brokers hold only partitions that they are a replica of",
              "it uses disk, and a move that brings the partition here may begin with these records", _AWAY),
        "the partition's replicas are on brokers {replicas}",
    ),
    "no_move": (
        _rule(29, "future-directory-without-move", _W, "-future directories are being filled by a move",
              "it uses disk, and the broker may go on with a forgotten move when it starts", _AWAY),
        "no move between log dirs fills it",
    ),
    "foreign": (
        _rule(30, "foreign-directory", _W, "log dirs hold only directories of partitions",
              "a broker does not start with a directory of another name in a log dir, and it uses disk",
              "move the directory out of the log dir"),
        "it is not a partition's",
    ),
}  # fmt: skip
"""For each thing that is held against a directory the rule that it breaks, and the sentence."""
METADATA_TOPIC = "__cluster_metadata"
"""The log of KRaft's controllers: it has no settings of a topic, and metadata does not list it."""
_NOT_COMPARED: Mapping[str, str] = {
    "metadata": "there are no whole metadata of this day in the store",
    "earlier": "they were read before the metadata: collect the cluster first, then read its log dirs",
    "broker": "{brokers} gave no log dirs when the metadata were collected",
}
BACKLOG = _rule(
    31, "compaction-backlog", _W, "logs of compacted topics are compacted",
    "they grow without limit, and deleted values stay",
    "look for errors in log-cleaner.log and for the metrics uncleanable-partitions-count and DeadThreadCount, then "
    "raise log.cleaner.threads and log.cleaner.io.max.bytes.per.second",
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *(rule for table in (PARTITION_RULES, TOPIC_RULES, DIRECTORY_RULES) for rule, _ in table.values()),
            DEAD,
            FOREIGN,
            BACKLOG,
        ),
        key=lambda rule: rule.code,
    )
)


def partition_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a partition and its copies.

    The row has a column for each of `PARTITION_RULES`, and `copies`: of each that something is held against its broker,
    log_dir, the same columns, and for each the least path where it holds, as `path_COLUMN`.
    """
    copies = sorted(row["copies"] or (), key=lambda copy: (copy["broker"] or 0, copy["log_dir"]))
    for column, (rule, sentence) in PARTITION_RULES.items():
        held = [copy for copy in copies if copy[column]]
        if column in OF_COPY:
            for copy in held:
                message = f"{sentence.format(n=f'{copy[column]:,}')}; look at {copy[f'path_{column}']}"
                on = "" if copy["broker"] is None else f" on broker {copy['broker']}"
                yield _of_partition(rule, row, on, message, copy[column])
        elif row[column]:
            is_doubtful = column == "gaps" and not row["is_known"]
            doubt = " (by its offsets: its cleanup.policy is not in the store)" if is_doubtful else ""
            said = sentence.format(n=f"{row[column]:,}", age=format_span((row["open_ms"] or 0) / 1000))
            brokers = sorted({copy["broker"] for copy in held if copy["broker"] is not None})
            on = f" on {_brokers(brokers)}" if brokers else ""
            message = f"{said}{doubt}; look at {held[0][f'path_{column}']}{on}"
            yield _of_partition(rule, row, "", message, row[column])


def _of_partition(rule: Rule, row: Mapping[str, Any], on: str, message: str, number: int) -> AuditFinding:
    name = f"partition {row['topic']}-{row['partition']}{on}" if row["topic"] else f"log dirs of broker {row['broker']}"
    return audit_finding(
        SEGMENTS_JOB, row["cluster"], rule.finding(f"{name} of {row['cluster']}", message, count=number)
    )


def topic_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a topic; the row is one of table `topics` of the job."""
    named = (row["cluster"], row["topic"])
    for column, (rule, sentence) in TOPIC_RULES.items():
        number = row[column]
        if number:
            finding = rule.finding(
                f"topic {named[1]} of {named[0]}", sentence.format_map({**row, **_topic_words(row)}), count=int(number)
            )
            yield audit_finding(SEGMENTS_JOB, named[0], finding, blast=row["partitions"], repair=_repair(column, row))
    if row["is_skewed"]:
        facts = TopicFacts(timestamp_skew_s=row["skew_ms"] / 1000)
        yield from topic_findings_of_lint(SEGMENTS_JOB, timestamp_skew, named, facts, Limits())


def log_dir_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a log dir: dead and foreign files, of which the row has numbers, bytes and the first."""
    for rule, what, count in ((DEAD, "dead", row["dead_files"]), (FOREIGN, "foreign", row["foreign_files"])):
        if count:
            where = f"log dir {row['broker']}:{row['log_dir']} of {row['cluster']}"
            size = format_bytes(row[f"{what}_bytes"])
            kinds = f" ({row['dead_roles']})" if what == "dead" else ""
            message = f"{count_of(count, f'{what} file')}{kinds} of {size}; the first is {row[f'{what}_path']}"
            yield audit_finding(SEGMENTS_JOB, row["cluster"], rule.finding(where, message, count=count))


def backlog_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """A compacted topic that is not compacted: the row has copies, brokers, dirty_bytes, waiting_ms and dirty_ratio."""
    message = (
        f"{format_bytes(row['dirty_bytes'])} of closed segments have waited for up to "
        f"{format_span(row['waiting_ms'] / 1000)} to be compacted, in {count_of(row['copies'], 'copy', 'copies')} on "
        f"{_brokers(row['brokers'])}: more than min.cleanable.dirty.ratio ({row['dirty_ratio']:g}) of their logs; "
        f"look at {row['path']}"
    )
    finding = BACKLOG.finding(f"topic {row['topic']} of {row['cluster']}", message, count=row["copies"])
    yield audit_finding(SEGMENTS_JOB, row["cluster"], finding, blast=row["copies"])


def directory_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
    """What is held against a directory: `held` is a key of `DIRECTORY_RULES`; the row has its path and bytes."""
    rule, sentence = DIRECTORY_RULES[row["held"]]
    broker = f"broker {row['broker']}"
    words = {
        **row,
        **{name: _kafkas_id(row[name]) for name in ("topic_id", "known_id")},
        "replicas": ", ".join(map(str, row["replicas"] or ())),
    }
    where = f"partition {row['topic']}-{row['partition']} on {broker}" if row["topic"] else broker
    message = f"{row['path']} uses {format_bytes(row['held_bytes'])}: {sentence.format_map(words)}"
    finding = rule.finding(f"{where} of {row['cluster']}", message, parts=(row["path"],))
    yield audit_finding(SEGMENTS_JOB, row["cluster"], finding)


_UUID = re.compile(r"[0-9a-f]{32}")


def _kafkas_id(topic_id: str | None) -> str:
    """The id of a topic as Kafka's tools and files write it."""
    text = (topic_id or "").replace("-", "")
    is_known = _UUID.fullmatch(text) is not None
    return urlsafe_b64encode(bytes.fromhex(text)).decode().rstrip("=") if is_known else topic_id or ""


def not_compared(rows: Sequence[tuple[str, str, int, int]]) -> tuple[str, ...]:
    """Sentences for directories that were not compared with metadata: by cluster, key of the reason, broker, number."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for cluster, reason, broker, number in rows:
        found.setdefault((cluster, reason), []).append((broker, number))
    return tuple(
        f"{count_of(sum(n for _, n in parts), 'directory', 'directories')} of {cluster}: not compared with topics and "
        "replicas, since " + _NOT_COMPARED[reason].format(brokers=_brokers([broker for broker, _ in parts]))
        for (cluster, reason), parts in found.items()
    )


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'s' * (len(ids) > 1)} {', '.join(map(str, ids))}"


def _repair(column: str, row: Mapping[str, Any]) -> str:
    if column == "future_segments" or (column == "is_overshot" and row["late_is_pinned"]):
        return f"message.timestamp.after.max.ms={FUTURE_MS}"
    return f"segment.index.bytes={2 * row['index_bytes']}" if column == "rolled_by_index" else ""


def _topic_words(row: Mapping[str, Any]) -> Mapping[str, str]:
    """What sentences say of a topic beside its numbers."""
    shares = [f"{row[f'{c}_batches'] / row['batches']:.0%} {c}" for c in CODECS if row[f"{c}_batches"]]
    words = {"codecs": ", ".join(shares)}
    if row["future_segments"]:
        words["ahead"] = format_span(row["future_ms"] / 1000)
    if row["is_overshot"]:
        age, retention, roll = row["late_age_ms"], row["retention_ms"], row["roll_ms"]
        if row["late_is_pinned"]:
            why = "a segment with timestamps in the future keeps it and all behind it"
        elif age <= retention + roll + row["check_interval_ms"]:
            why = f"segments stay open for up to {format_span(roll / 1000)} (segment.ms)"
        else:
            why = "the broker has not deleted it, although every segment is old enough"
        words |= {"age": format_span(age / 1000), "retention": format_span(retention / 1000), "why": why}
    return words


BOMBS_JOB = "bombs"
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


def bomb_findings(row: Mapping[str, Any]) -> Iterator[AuditFinding]:
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
        yield from topic_findings_of_lint(BOMBS_JOB, decompression_budget, named, facts, memory, settings=settings)
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
        for found in topic_findings_of_lint(BOMBS_JOB, rule, named, facts, limits, apart=apart):
            yield replace(found, hint=f"{found.hint}{_producers(batches)}")


def _above_memory(row: Mapping[str, Any], worst: Mapping[str, Any]) -> AuditFinding:
    """KKM409 with a batch that was seen, in place of one that may come."""
    bound = "up to " if worst["is_bound"] else ""
    message = (
        f"{count_of(row['large_batches'], 'batch', 'batches')} decompress to more than a consumer's "
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
    (found,) = topic_findings_of_lint(BOMBS_JOB, decompression_budget, named, facts, limits, settings=settings)
    hint = f"lower {_SIZE}, and batch.size of the producer{_producers(row['batches'])}"
    return replace(found, message=message, hint=hint, count=row["large_batches"], expected=None)


def _producers(batches: Sequence[Mapping[str, Any]]) -> str:
    ids = sorted({b["producer_id"] for b in batches if b["producer_id"] is not None and b["producer_id"] >= 0})
    return f" (producer ids {', '.join(map(str, ids[:5]))})" if ids else ""


def topic_findings_of_lint(
    job: str,
    rule: LintRule,
    named: tuple[str, str],
    facts: TopicFacts,
    limits: Limits,
    *,
    settings: Mapping[str, str] | None = None,
    apart: str = "",
) -> Iterator[AuditFinding]:
    """What a rule holds against the topic `named` (cluster, topic) with these facts and effective settings.

    `apart` tells findings of one rule from one another where limits differ; empty for lint's own limit.
    """
    table = config_table(NEWEST)
    cluster, topic = named
    given = {key: DeclaredValue(value, ValueSource.TOPIC) for key, value in (settings or {}).items()}
    subject = LintTopic(name=topic, config=TopicConfig(given, BrokerConfig(table)), facts=facts)
    within = LintCluster(name=cluster, table=table, topics=(subject,))
    for violation in rule.check(subject, within, limits):
        told = replace(violation, subject=apart or violation.subject)
        yield audit_finding(job, cluster, make_finding(rule, told, subject, within).finding)
