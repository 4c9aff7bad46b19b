"""Tags: their text, what may be set, and their form in kafka-kit's znodes."""

import json
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from kafkakit.core.errors import UsageError
from kafkakit.core.printable import printable
from kafkakit.core.tags import BROKER_TAGS, TOPIC_TAGS
from kafkakit.registry.decide.faults import fault, invalid

Tags = Mapping[str, str]

MAX_KEY, MAX_VALUE, MAX_TAGS = 128, 1024, 100
MAX_GIVEN = 200
"""The most tags of one request."""
MAX_DOCUMENT_BYTES = 60_000
MARK = "tagMarkedForDeletionTime"
"""kafka-kit's cleanup sets it on tags of what is gone, with the time in Unix seconds."""


class Kind(StrEnum):
    """What has tags; the values are the names of kafka-kit's znodes."""

    BROKER = BROKER_TAGS
    TOPIC = TOPIC_TAGS


RESERVED: Mapping[Kind, frozenset[str]] = {
    Kind.TOPIC: frozenset({"tags", "name", "partitions", "replication", "configs", "replicas"}),
    Kind.BROKER: frozenset({"tags", "id", "host", "port", "rack", "interbrokerprotocolversion", "logmessageformat"}),
}


def parse_tags(given: Sequence[str]) -> dict[str, str]:
    """`key:value` texts as tags; later ones win. `RpcError` for what has another form, with kafka-kit's text."""
    if len(given) > MAX_GIVEN:
        raise invalid(f"{len(given)} tags are given: at most {MAX_GIVEN}")
    found: dict[str, str] = {}
    for text in given:
        key, colon, value = text.partition(":")
        if not colon or ":" in value or not key:
            raise invalid(f"invalid tag '[{printable(' '.join(given)[:200])}]': must be formatted as key:value")
        found[key] = value
    return found


def require_tag_texts(given: Sequence[str]) -> None:
    """Raise `UsageError` for the first word of a command line that is not `KEY:VALUE`."""
    bad = next((text for text in given if text.count(":") != 1 or text.startswith(":")), None)
    if bad is not None:
        hint = "write KEY:VALUE, such as team:pay; neither part can have a colon"
        raise UsageError(f"{printable(bad[:100])!r} is not a tag", hint=hint)


def tags_to_set(kind: Kind, given: Sequence[str]) -> dict[str, str]:
    """The tags of a request that sets them; `RpcError` for none, for reserved keys and for what is over a limit."""
    if not given:
        raise fault("must provide a non-nil or non-empty tags")
    found = parse_tags(given)
    for key, value in found.items():
        check_tag(kind, key, value)
    return found


def keys_to_delete(given: Sequence[str]) -> frozenset[str]:
    """The keys of a request that deletes tags; of `key:value` the key counts, as in kafka-kit."""
    if not given:
        raise fault("must provide a non-nil or non-empty tags")
    if len(given) > MAX_GIVEN:
        raise invalid(f"{len(given)} tags are given: at most {MAX_GIVEN}")
    return frozenset(text.partition(":")[0] for text in given)


def merged(kind: Kind, name: str, present: Tags, given: Tags) -> dict[str, str]:
    """The tags of an object after a request; `RpcError` where they would be too many."""
    result = {**present, **given}
    if len(result) > MAX_TAGS or len(encode_tags(result)) > MAX_DOCUMENT_BYTES:
        raise invalid(f"{kind} {name} would have {len(result)} tags: at most {MAX_TAGS} and {MAX_DOCUMENT_BYTES} bytes")
    return result


def without(present: Tags, keys: Collection[str]) -> dict[str, str]:
    """The tags that are left."""
    return {key: value for key, value in present.items() if key not in keys}


def changed_keys(before: Tags, after: Tags) -> tuple[dict[str, str], frozenset[str]]:
    """What to set and which keys to delete, so that the tags `before` become those `after`."""
    return {k: v for k, v in after.items() if before.get(k) != v}, frozenset(before.keys() - after.keys())


def encode_tags(tags: Tags) -> bytes:
    """The znode of an object's tags, as Go's encoding/json writes it: sorted, compact, `<`, `>` and `&` escaped."""
    text = json.dumps(dict(sorted(tags.items())), separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "replace")


def is_broker_id(name: str) -> bool:
    """Whether a name is that of a broker: its id, without zeros before it."""
    return name.isascii() and name.isdigit() and len(name) < 11 and str(int(name)) == name


def check_tag(kind: Kind, key: str, value: str) -> None:
    """`RpcError` for a tag that cannot be set: a reserved key, or a text that is too long or does not print."""
    if key in RESERVED[kind]:
        raise invalid(f"tag '{key}' is a reserved tag")
    if key == MARK:
        raise invalid(f"tag '{key}' is a reserved tag: only the cleanup sets it")
    if len(key) > MAX_KEY or not key.isprintable():
        raise invalid(f"tag '{printable(key[:40])}': a key must have at most {MAX_KEY} characters, all printable")
    if len(value) > MAX_VALUE or not value.isprintable():
        raise invalid(f"the value of tag '{key}' must have at most {MAX_VALUE} characters, all printable")
