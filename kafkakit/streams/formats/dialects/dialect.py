"""A dialect of commit metadata as one record: how it is recognised, read, written, explained, and what endangers it.

Everything that differs from one dialect to the next is a field here, so that no other module asks which dialect a
commit is in. A dialect is made by one file of this folder and listed in `registry`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafkakit.core.group_facts import CommittedOffset
from kafkakit.streams.formats.commit import CommitState, Problem, Reading
from kafkakit.streams.formats.dialects.facts import CommitFacts
from kafkakit.streams.formats.dialects.hazard import Hazard
from kafkakit.streams.formats.dialects.metadata_text import MetadataText
from kafkakit.streams.formats.identity import CommitIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeRequest:
    """A state to commit in at most `limit_chars` characters.

    `form` is one of the dialect's `forms`; "" writes what stands best in place of `replaces`, which was read as
    `replaced`. `stream_time_ms` and `processor` are for dialects that hold record times instead of offsets.
    """

    state: CommitState
    limit_chars: int
    identity: CommitIdentity | None = None
    form: str = ""
    replaces: CommittedOffset | None = None
    replaced: Reading | None = None
    stream_time_ms: int | None = None
    processor: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedMetadata:
    """Metadata to commit; `fits` is False where no metadata within the limit holds the state.

    `forgotten` acknowledgements and the parts `left_out` of the state were dropped so that the rest fits.
    """

    text: str
    fits: bool = True
    forgotten: int = 0
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The checksum that binds a payload to its commit, and the bytes that it covers beside the identity."""

    checksum: int
    signed: bytes


def no_hazards(facts: CommitFacts) -> Iterable[Hazard]:
    """The hazards of a dialect that has none of its own."""
    del facts
    return ()


def no_effect(facts: CommitFacts) -> str:
    """The words of a dialect to whose reader nothing happens."""
    del facts
    return ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """One kind of commit metadata; two records are equal when they are the same one.

    `name` is its word in documents and tables. A text that begins with `mark`, or base64 of bytes that begin with one
    of `first_bytes`, is its own: `decode` gets the text, and the bytes behind base64 (none for a mark), and reads it
    whatever else it holds. No two dialects claim the same beginning.

    `encode` writes a state. `word` names the dialect where commits are edited ("": edits write no such metadata of
    their own accord), `forms` are its words for `encode --as`, with `about_forms` in the help of that option.
    `client_limit_chars` is what its client accepts whatever the brokers allow, `spare_chars` what its writer leaves
    free; `when_too_large` is the advice for a state that does not fit.

    `reader` names the client that reads it, `noun` one piece of it, and `why_one_offset` says why its client cannot
    change to another dialect.

    `effect_of_size` and `effect_of_nul` say what its client does when the metadata is near the limit, and when it ends
    with a NUL ("": nothing); `hazards` are those that other dialects do not have.
    """

    name: str
    decode: Callable[[MetadataText, bytes], Reading]
    encode: Callable[[EncodeRequest], EncodedMetadata]
    mark: str = ""
    first_bytes: frozenset[int] = frozenset()
    word: str = ""
    forms: tuple[str, ...] = ()
    about_forms: str = ""
    client_limit_chars: int | None = None
    spare_chars: int = 0
    when_too_large: str = ""
    reader: str
    noun: str
    why_one_offset: str = ""
    has_payload: bool = True
    """False for a commit without metadata, which clients of every dialect make."""
    is_understood: bool = True
    """False where it is unknown what the metadata says above the committed offset."""
    holds_done: bool = False
    """True when it holds which offsets above the committed one are done."""
    holds_details: bool = False
    """True when it holds every other part of a `CommitState` too."""
    counts_from_offset: bool = False
    """True when it is relative to the offset that it is committed with, so that a copy to another offset shifts it."""
    newer_problems: frozenset[Problem] = frozenset()
    """Problems which say that a newer version of the writer made the payload."""
    find_binding: Callable[[str], Binding | None] | None = None
    """The binding of a payload (None for a text that has none); no function where the dialect is bound to nothing."""
    effect_of_size: Callable[[CommitFacts], str] = no_effect
    effect_of_nul: Callable[[CommitFacts], str] = no_effect
    hazards: Callable[[CommitFacts], Iterable[Hazard]] = no_hazards

    @property
    def is_bound(self) -> bool:
        """True when payloads are bound to cluster, topic, partition and group."""
        return self.find_binding is not None
