"""All dialects of commit metadata, and the one way that a metadata string is read."""

from kafkakit.streams.formats.commit import Reading
from kafkakit.streams.formats.dialects.dialect import Binding, Dialect
from kafkakit.streams.formats.dialects.kafka_streams import KAFKA_STREAMS
from kafkakit.streams.formats.dialects.kkm1 import KKM1
from kafkakit.streams.formats.dialects.metadata_text import MetadataText, canonical_base64
from kafkakit.streams.formats.dialects.opaque import OPAQUE
from kafkakit.streams.formats.dialects.parallel_consumer.record import PARALLEL_CONSUMER
from kafkakit.streams.formats.dialects.plain import PLAIN
from kafkakit.streams.formats.identity import CommitIdentity

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
