"""All dialects of commit metadata, the one way that a metadata string is read, and whose payload a foreign one is.

Metadata that are not of the commit that they stand in have an origin, in words for an operator. Whose KKM1 payload it
is: its checksum is tried against everything that is known, without trying every combination. The bind is CRC-32C over
cluster, topic id, partition, group, first byte and body, in this order. A checksum runs backwards as well as forwards:
what its state must have been before the group's name is computed once for each group, what it is behind the partition
once for each partition, and equal states are owners. So P partitions and G groups cost P + G, not P x G. Of `c`
combinations about `c / 2**32` fit by chance.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkakit.streams.model.binary import CHECKSUM_MASK, CHECKSUM_STEPS, crc32c
from kafkakit.streams.model.commit import CommitIdentity, Reading, topic_id_text
from kafkakit.streams.model.dialects.dialect import Binding, Dialect, MetadataText, canonical_base64
from kafkakit.streams.model.dialects.kafka_streams import KAFKA_STREAMS
from kafkakit.streams.model.dialects.kkm1 import KKM1
from kafkakit.streams.model.dialects.opaque import OPAQUE
from kafkakit.streams.model.dialects.parallel_consumer import PARALLEL_CONSUMER
from kafkakit.streams.model.dialects.plain import PLAIN

DIALECTS: tuple[Dialect, ...] = (PLAIN, KKM1, PARALLEL_CONSUMER, KAFKA_STREAMS, OPAQUE)
WITHOUT_METADATA = PLAIN
"""The dialect of a commit that is an offset alone."""

_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
_BY_MARK = {dialect.mark: dialect for dialect in DIALECTS if dialect.mark}
_BY_FIRST_BYTE = {first: dialect for dialect in DIALECTS for first in dialect.first_bytes}
_BY_WORD = {dialect.word: dialect for dialect in DIALECTS if dialect.word}
_BY_FORM = {form: dialect for dialect in DIALECTS for form in dialect.forms}

WORDS = tuple(sorted(_BY_WORD))
"""The words for dialects that edits can write."""
FORMS = tuple(_BY_FORM)
"""The words for the forms that a state can be written in."""


def read_metadata(text: str, offset: int, identity: CommitIdentity | None = None) -> Reading:
    """What `text` means for the offset that it was committed with; never raises, for any text.

    Trailing NULs, which some clients add, count in `chars` and nowhere else. The first character, or the first byte
    behind base64, decides the dialect, and the whole payload has to be just as that dialect writes it: what is not, is
    opaque, and `reason` says what it nearly was. Cost: linear in the text, and bounded for what a compressed payload
    holds.
    """
    source = MetadataText.of(text, offset, identity)
    if not source.text:
        return PLAIN.decode(source, b"")
    marked = _BY_MARK.get(source.text[0])
    if marked is not None:
        return marked.decode(source, b"")
    data = canonical_base64(source.text)
    if not data:
        return OPAQUE.decode(source, b"")
    return _BY_FIRST_BYTE.get(data[0], OPAQUE).decode(source, data)


def is_dialect_name(name: str) -> bool:
    """True for the name of a dialect."""
    return name in _BY_NAME


def dialect_named(name: str) -> Dialect:
    """The dialect of a reading or a document, by its name."""
    return _BY_NAME[name]


def dialect_of_word(word: str) -> Dialect:
    """The dialect that edits call by this word."""
    return _BY_WORD[word]


def dialect_of_form(form: str) -> Dialect:
    """The dialect that a form belongs to."""
    return _BY_FORM[form]


def about_forms() -> str:
    """The forms in words, for the help of an option."""
    return ", ".join(dialect.about_forms for dialect in DIALECTS if dialect.about_forms) + "."


def find_binding(text: str) -> Binding | None:
    """What binds a payload to its commit; None for metadata that is bound to nothing, or that cannot be read."""
    dialect = _BY_MARK.get(text[:1])
    return None if dialect is None or dialect.find_binding is None else dialect.find_binding(text)


MAX_NAMED = 3
"""Owners that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadOwner:
    """An identity that the checksum fits, and the name of its topic."""

    identity: CommitIdentity
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSearch:
    """Who fits, in the order of the topics and groups given, and how much was tried.

    `is_complete` is False when a limit cut the search short; `by_chance` is how many owners to expect of chance alone.
    """

    owners: tuple[PayloadOwner, ...]
    partitions: int
    groups: int
    is_complete: bool

    @property
    def by_chance(self) -> float:
        """Owners that a payload of an unknown writer would be given by chance."""
        return self.partitions * self.groups / 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose a payload is, likeliest first, and the same as one sentence; `is_here` when it is this commit's own."""

    owners: tuple[PayloadOwner, ...]
    is_here: bool
    sentence: str
    search: OwnerSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic that may be the owner's, with the number of its partitions; `topic_id` has 16 bytes."""

    cluster_id: str
    topic: str
    topic_id: bytes
    partitions: int


def find_origin(text: str, here: CommitIdentity, topics: Iterable[KnownTopic], groups: Iterable[str]) -> Origin | None:
    """Whose payload stands in a commit of `here`; None for metadata that is bound to nothing.

    Topics and groups may be of many clusters, and generators; `find_owners` states the limits. Owners that share the
    group or the partition with `here` come first, and alone, for a fit of anything else may be chance.
    """
    binding = find_binding(text)
    if binding is None:
        return None
    search = find_owners(binding.checksum, binding.signed, topics, groups)
    near = [owner for owner in search.owners if _nearness(owner, here) >= 2]
    owners = tuple(sorted(near or search.owners, key=lambda owner: (-_nearness(owner, here), _place(owner))))
    is_here = any(owner.identity == here for owner in owners)
    return Origin(owners=owners, is_here=is_here, sentence=_sentence(owners, search, here, is_here), search=search)


def _sentence(owners: tuple[PayloadOwner, ...], search: OwnerSearch, here: CommitIdentity, is_here: bool) -> str:
    tried = f"{search.partitions:,} partitions and {search.groups:,} groups tried"
    if not search.is_complete:
        tried += ", which is the limit"
    if is_here:
        return "it is bound to this very commit"
    if not owners:
        return f"it is bound to nothing that is known here, or damaged ({tried})"
    named = "; or for ".join(_difference(owner, here) for owner in owners[:MAX_NAMED])
    more = f"; or for {len(owners) - MAX_NAMED} others" if len(owners) > MAX_NAMED else ""
    chance = f"; {search.by_chance:.1f} would fit by chance" if search.by_chance >= 0.05 else ""
    return f"it was written for {named}{more} ({tried}{chance})"


def _difference(owner: PayloadOwner, here: CommitIdentity) -> str:
    """An owner in words: all of it, and what of it is another than here."""
    there = owner.identity
    others = [
        name
        for name, differs in (
            ("cluster", there.cluster_id != here.cluster_id),
            ("topic id", there.topic_id != here.topic_id),
            ("partition", there.partition != here.partition),
            ("group", there.group != here.group),
        )
        if differs
    ]
    return (
        f"group {there.group}, partition {owner.topic}-{there.partition} (topic id {topic_id_text(there.topic_id)}) "
        f"of cluster {there.cluster_id}: another {', '.join(others)}"
    )


def _nearness(owner: PayloadOwner, here: CommitIdentity) -> int:
    there = owner.identity
    is_same_partition = (there.topic_id, there.partition) == (here.topic_id, here.partition)
    return 2 * (there.group == here.group) + 2 * is_same_partition + (there.cluster_id == here.cluster_id)


def _place(owner: PayloadOwner) -> tuple[str, str, int, str]:
    there = owner.identity
    return there.cluster_id, owner.topic, there.partition, there.group


MAX_PARTITIONS = 2_000_000
"""Partitions that one search tries; with as many groups as it tries, that takes some three seconds."""
MAX_GROUPS = 200_000
"""Groups that one search tries."""
MAX_OWNERS = 100
"""Owners that one search gives."""
_BY_TOP = {entry >> 24: index for index, entry in enumerate(CHECKSUM_STEPS)}


def find_owners(bind: int, signed: bytes, topics: Iterable[KnownTopic], groups: Iterable[str]) -> OwnerSearch:
    """Every known identity that a payload is bound to: its checksum is `bind`, which covers `signed` and the identity.

    Cost: linear in groups plus partitions, of which `MAX_GROUPS` and `MAX_PARTITIONS` are tried and no more.
    """
    behind_group = _unwind(bind ^ CHECKSUM_MASK, signed)
    wanted: dict[int, list[str]] = {}
    tried_groups = tried_partitions = 0
    is_complete = True
    for group in groups:
        if tried_groups == MAX_GROUPS:
            is_complete = False
            break
        tried_groups += 1
        state = _unwind(behind_group, group.encode("utf-8", "surrogatepass") + b"\0")
        wanted.setdefault(state, []).append(group)
    owners: list[PayloadOwner] = []
    for number, topic in enumerate(topics):
        count = min(topic.partitions, MAX_PARTITIONS - tried_partitions)
        tried_partitions += count
        for partition, state in _states(topic, count):
            owners += (_owner(topic, partition, group) for group in wanted.get(state, ()))
        if count < topic.partitions or number == MAX_PARTITIONS:
            is_complete = False
            break
    return OwnerSearch(
        owners=tuple(owners[:MAX_OWNERS]),
        partitions=tried_partitions,
        groups=tried_groups,
        is_complete=is_complete,
    )


def _states(topic: KnownTopic, count: int) -> Iterator[tuple[int, int]]:
    """Each partition and the checksum's state behind its four bytes; the first three are the same for 256 of them."""
    before = _wind(CHECKSUM_MASK, topic.cluster_id.encode("utf-8", "surrogatepass") + b"\0" + topic.topic_id)
    for high in range((count + 255) >> 8):
        state = _wind(before, high.to_bytes(3, "big"))
        rest = state >> 8
        for low in range(min(256, count - (high << 8))):
            yield (high << 8) + low, CHECKSUM_STEPS[(state ^ low) & 0xFF] ^ rest


def _owner(topic: KnownTopic, partition: int, group: str) -> PayloadOwner:
    identity = CommitIdentity(cluster_id=topic.cluster_id, topic_id=topic.topic_id, partition=partition, group=group)
    return PayloadOwner(identity=identity, topic=topic.topic)


def _wind(state: int, data: bytes) -> int:
    """The checksum's state after these bytes; the first state is all ones, and a checksum is a state inverted."""
    return crc32c(data, state ^ CHECKSUM_MASK) ^ CHECKSUM_MASK


def _unwind(state: int, data: bytes) -> int:
    """The state before these bytes. The table's top bytes are all different, so the last step is known from the
    state's top byte alone."""
    for byte in reversed(data):
        index = _BY_TOP[state >> 24]
        state = ((state ^ CHECKSUM_STEPS[index]) << 8 | (index ^ byte)) & CHECKSUM_MASK
    return state
