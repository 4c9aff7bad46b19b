"""What a commit belongs to, and how topic ids are written."""

from dataclasses import dataclass

from kafkakit.core.errors import UsageError

TOPIC_ID_BYTES = 16
NO_TOPIC_ID = bytes(TOPIC_ID_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIdentity:
    """The cluster, topic, partition and group of one committed offset; what a KKM1 payload is bound to.

    `topic_id` has 16 bytes, all zero where the cluster gives topics no ids.
    """

    cluster_id: str
    topic_id: bytes
    partition: int
    group: str


def topic_id_bytes(text: str) -> bytes:
    """The 16 bytes of a topic id as Kafka's clients print it: a UUID, with or without dashes, or 22 base64url
    characters; raises `UsageError` for anything else."""
    from base64 import urlsafe_b64decode

    plain = text.replace("-", "")
    try:
        found = urlsafe_b64decode(text + "==") if len(text) == 22 else bytes.fromhex(plain)
    except ValueError:
        found = b""
    # Both decoders skip characters that are not theirs, so the length has the last word.
    if len(found) == TOPIC_ID_BYTES and (len(text) == 22 or len(plain) == 2 * TOPIC_ID_BYTES):
        return found
    raise UsageError(f"{text!r} is not a topic id", hint="give a UUID or the 22 characters that Kafka's tools print")


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as a UUID in the usual five groups."""
    digits = topic_id.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
