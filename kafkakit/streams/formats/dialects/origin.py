"""Where a commit's metadata came from, when it is not of the commit that it stands in; in words for an operator."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.streams.formats.dialects.bind_search import KnownTopic, OwnerSearch, PayloadOwner, find_owners
from kafkakit.streams.formats.dialects.registry import find_binding
from kafkakit.streams.formats.identity import CommitIdentity, topic_id_text

MAX_NAMED = 3
"""Owners that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose a payload is, likeliest first, and the same as one sentence; `is_here` when it is this commit's own."""

    owners: tuple[PayloadOwner, ...]
    is_here: bool
    sentence: str
    search: OwnerSearch


def find_origin(text: str, here: CommitIdentity, topics: Iterable[KnownTopic], groups: Iterable[str]) -> Origin | None:
    """Whose payload stands in a commit of `here`; None for metadata that is bound to nothing.

    Topics and groups may be of many clusters, and generators; `bind_search` states the limits. Owners that share the
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
