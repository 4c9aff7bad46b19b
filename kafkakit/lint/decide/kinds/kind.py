"""A kind of file: one record that recognises it and reads it into pieces; and reading values out of located trees.

Numbers, names and configurations are read with a problem for each wrong shape.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingABC
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, field
from functools import lru_cache

from kafkakit.config.client_properties import locate_properties
from kafkakit.core.findings import Place
from kafkakit.core.yaml_json import NULLS, UNPARSABLE, Document, Mapping, MappingEntry, Node, Scalar, Sequence
from kafkakit.lint.decide.pieces import FileProblem, Pieces, ResourceAcceptance
from kafkakit.rules.effective import NO_CONFIGS, Configs, DeclaredValue, ValueSource, to_int, to_items
from kafkakit.rules.subjects import LogDirFacts
from kafkakit.rules.values import (
    holds_placeholder,
    is_reference,
    is_secret_key,
    without_jaas_secrets,
    without_secret_in_address,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """One kind of file.

    `recognise` is called with each document of a file; `read` with the file and those of its documents that are of
    this kind, and never raises. A name proves nothing: `patterns` are file names (shell patterns over the path) that
    decide only about a document that `may_be` of this kind by its content. A document that is of another kind, or of
    none, may carry settings of this kind too: if the file has one of the `marks`, `carries` tells.
    """

    name: str
    about: str
    formats: tuple[str, ...]
    recognise: Callable[[Node], bool]
    read: Callable[[Document, tuple[Node, ...]], Pieces]
    patterns: tuple[str, ...] = ()
    may_be: Callable[[Node], bool] = field(default=lambda _: False)
    marks: tuple[str, ...] = ()
    carries: Callable[[Node], bool] = field(default=lambda _: False)


def join_pieces(parts: list[Pieces]) -> Pieces:
    """Several pieces of one file as one."""
    return Pieces(
        clusters=tuple(piece for part in parts for piece in part.clusters),
        brokers=tuple(piece for part in parts for piece in part.brokers),
        topics=tuple(piece for part in parts for piece in part.topics),
        assignments=tuple(piece for part in parts for piece in part.assignments),
        agents=tuple(piece for part in parts for piece in part.agents),
        connectors=tuple(piece for part in parts for piece in part.connectors),
        problems=tuple(piece for part in parts for piece in part.problems),
        accepted=tuple(piece for part in parts for piece in part.accepted),
    )


IGNORE_PREFIX = "ignore.kafkakit/"
"""Annotations `ignore.kafkakit/CODE: reason` accept the findings of a resource of Kubernetes."""


def with_accepted(document: Document, resources: Sequence_[Mapping], parts: Iterable[Pieces]) -> Pieces:
    """The pieces of a file's resources as one, with what the annotations of the resources accept."""
    return join_pieces([*parts, Pieces(accepted=_accepted_by(document, resources))])


def _accepted_by(document: Document, resources: Sequence_[Mapping]) -> tuple[ResourceAcceptance, ...]:
    """What the annotations of resources accept, each from where the resource begins to where the next one does."""
    found = []
    starts = sorted({node.start for node in (*document.roots, *resources)})
    for resource in resources:
        metadata = resource.mapping("metadata")
        annotations = metadata.mapping("annotations") if metadata is not None else None
        texts = DocumentReader(document).plain_texts(annotations)
        ignored = {key.removeprefix(IGNORE_PREFIX): why for key, why in texts.items() if key.startswith(IGNORE_PREFIX)}
        if ignored:
            after = bisect_right(starts, resource.start)
            end = document.place(starts[after]) if after < len(starts) else None
            place = document.place(resource.start)
            found.append(ResourceAcceptance(ignored=ignored, place=place, end=end and (end.line, end.column)))
    return tuple(found)


def resources_in(roots: Iterable[Node]) -> Iterator[Mapping]:
    """Every resource of Kubernetes, those of lists of kubectl too."""
    for root in roots:
        if isinstance(root, Mapping) and root.text("kind") == "List":
            yield from resources_in(root.sequence("items"))
        elif isinstance(root, Mapping):
            yield root


_INK = re.compile(r"\S")
_LINE_END = re.compile(r"[\r\n]")
_INK_OF_STYLE = {
    "'": re.compile(r"''|\S"),
    '"': re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[^\w\s]|[^nrtNL_\s])|(?<!\\)\S"),
}


def read_embedded(
    document: Document, value: Scalar, inner: Document, skipped: int = 0
) -> tuple[tuple[Node, ...], list[FileProblem]]:
    """The trees and problems of a text that stands in a value of a document, with the places that they have there.

    `inner` is the text as read, which begins `skipped` characters behind the beginning of the value.
    """
    moved = _offsets_inside(document, value, skipped)
    problems = [
        FileProblem(rule=p.rule, message=p.message, place=document.place(moved(p.at)), key=p.key)
        for p in inner.problems
    ]
    nodes: dict[int, Node] = {}
    return tuple(_move_node(root, moved, nodes) for root in inner.roots), problems


def properties_in(reader: "DocumentReader", value: Scalar, source: ValueSource = ValueSource.STATIC) -> Configs:
    """The settings of properties that stand in a value of YAML or JSON, each with its place in the file."""
    moved = _offsets_inside(reader.document, value)
    return {
        entry.name: DeclaredValue(
            without_secret(entry.name, entry.value),
            source,
            reader.document.place(moved(entry.name_at.start)),
        )
        for entry in locate_properties(value.text).entries
    }


def _offsets_inside(document: Document, value: Scalar, skipped: int = 0) -> Callable[[int], int]:
    """Tells where in a document a character of a value stands; where the value begins if that is not sure.

    Characters that are seen are the same and in the same order in a value and as it is written, in whatever style.
    """
    inked = [found.start() - skipped for found in _INK.finditer(value.text)]
    places = _places_of_ink(document, value)
    if document.text.startswith("<<", value.start):  # the mark that ends a heredoc stands behind its text
        places = places[: len(inked)]

    def moved(at: int) -> int:
        number = bisect_left(inked, at)
        return places[number] if len(places) == len(inked) and number < len(inked) else value.start

    return moved


def _places_of_ink(document: Document, value: Scalar) -> list[int]:
    """Where each character of a value stands in the text that is no space; more or less of them if that is not sure."""
    text, start, end = document.text, value.start, value.end
    style = text[start : start + 1]
    if (style in ("|", ">") and not value.is_plain) or text.startswith("<<", start):
        header = _LINE_END.search(text, start, end)
        return [found.start() for found in _INK.finditer(text, header.end() if header else end, end)]
    pattern = _INK_OF_STYLE.get(style) if not value.is_plain else None
    if pattern is None:
        return [found.start() for found in _INK.finditer(text, start, end)]
    return [found.start() for found in pattern.finditer(text, start + 1, end - 1)]


def _move_node(node: Node, to: Callable[[int], int], moved: dict[int, Node]) -> Node:
    """A tree at other offsets; `moved` has the nodes that aliases share, so that each is moved once."""
    if isinstance(node, Scalar):
        return node._replace(start=to(node.start), end=to(node.end))
    known = moved.get(id(node))
    if known is not None:
        return known
    if isinstance(node, Sequence):
        found: Node = node._replace(items=[_move_node(item, to, moved) for item in node.items], start=to(node.start))
    else:
        entries = {
            name: MappingEntry(Scalar(key.text, to(key.start), to(key.end), key.is_plain), _move_node(held, to, moved))
            for name, (key, held) in node.entries.items()
        }
        found = node._replace(entries=entries, start=to(node.start))
    moved[id(node)] = found
    return found


def of_each(read_one: Callable[[Document, Mapping], Pieces]) -> Callable[[Document, tuple[Node, ...]], Pieces]:
    """Reads a file mapping by mapping."""

    def read(document: Document, roots: tuple[Node, ...]) -> Pieces:
        return join_pieces([read_one(document, root) for root in roots if isinstance(root, Mapping)])

    return read


LITERAL = "[hidden secret]"
"""Stands for a secret that a file holds: the text is gone, the fact that it was written out is not."""

_is_secret = lru_cache(maxsize=10_000)(is_secret_key)


def without_secret(key: str, text: str) -> str:
    """The value, hidden where its key names a secret and it is no reference to one kept elsewhere.

    Passwords in addresses are hidden under every key.
    """
    text = without_secret_in_address(text, LITERAL)
    if not _is_secret(key) or not text.strip() or is_reference(text):
        return text
    return without_jaas_secrets(text, LITERAL) if key.endswith("sasl.jaas.config") else LITERAL


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE_FLOAT = re.compile(r"([+-]?\d+)\.0+")
_VERSION = re.compile(r"v?\d{1,3}\.\d{1,3}(\.\d{1,3})*(-[\w.-]*)?")
# Named tuples without the call of their own `__new__`: configurations are most of what is read.
_place: Callable[[type[Place], tuple[str, int, int]], Place] = tuple.__new__
_declared: Callable[[type[DeclaredValue], tuple[str, ValueSource, Place]], DeclaredValue] = tuple.__new__
TRUE_WORDS = frozenset({"true", "yes", "on"})


@dataclass(slots=True)
class DocumentReader:
    """Reads values of one document and keeps the problems it meets."""

    document: Document
    problems: list[FileProblem] = field(default_factory=list)

    def place(self, node: Node) -> Place:
        """Where a value begins."""
        return self.document.place(node.start)

    def problem(self, node: Node, message: str, key: str | None = None, rule: str = UNPARSABLE) -> None:
        """Keep a problem, of shape unless it is that of another file rule."""
        self.problems.append(FileProblem(rule=rule, message=message, place=self.place(node), key=key))

    def known_keys(self, node: Mapping, known: Iterable[str], what: str) -> None:
        """Keep a problem for every key that is not known."""
        allowed = frozenset(known)
        for entry in node.entries.values():
            if entry.key.text not in allowed:
                self.problem(entry.key, f"{what} has no field {entry.key.text!r:.60}", entry.key.text)

    def mapping(self, node: Mapping, key: str) -> Mapping | None:
        """The mapping at a key; a problem for another shape."""
        found = node.get(key)
        if found is not None and not isinstance(found, Mapping):
            self.problem(found, f"{key} must be a mapping of keys to values", key)
            return None
        return found

    def mappings(self, node: Mapping, key: str) -> tuple[Mapping, ...]:
        """The mappings in the list at a key; a problem for each other shape."""
        found = node.get(key)
        if found is None:
            return ()
        if not isinstance(found, Sequence):
            self.problem(found, f"{key} must be a list", key)
            return ()
        for item in found.items:
            if not isinstance(item, Mapping):
                self.problem(item, f"an item of {key} must be a mapping of keys to values", key)
        return tuple(item for item in found.items if isinstance(item, Mapping))

    def text(self, node: Mapping, key: str) -> str | None:
        """The text at a key."""
        found = node.get(key)
        if found is not None and not isinstance(found, Scalar):
            self.problem(found, f"{key} must be a text", key)
            return None
        return None if found is None else found.text

    def version(self, node: Mapping, key: str) -> str | None:
        """The Kafka version at a key; a problem for a text that is none."""
        found = self.text(node, key)
        if found is not None and holds_placeholder(found):
            return None
        if found is not None and not _VERSION.fullmatch(found):
            self.problem(node.entries[key].value, f"{key} must be a Kafka version, such as 4.3", key)
            return None
        return found

    def texts(self, node: Mapping, key: str) -> tuple[str, ...]:
        """The texts in the list at a key; one text counts as a list of one."""
        found = node.get(key)
        if isinstance(found, Scalar):
            return (found.text,)
        return tuple(item.text for item in node.sequence(key) if isinstance(item, Scalar))

    def integer(self, node: Mapping, key: str, minimum: int = 0) -> int | None:
        """The whole number at a key; a problem for another text, or one below the minimum."""
        found = node.get(key)
        if found is None:
            return None
        if isinstance(found, Scalar) and holds_placeholder(found.text):
            return None
        number = to_int(whole_text(found.text)) if isinstance(found, Scalar) else None
        if number is None or number < minimum:
            self.problem(found, f"{key} must be a whole number, {minimum} or more", key)
            return None
        return number

    def number(self, node: Mapping, key: str) -> float | None:
        """The number at a key."""
        found = node.get(key)
        if found is None:
            return None
        if isinstance(found, Scalar) and holds_placeholder(found.text):
            return None
        if not isinstance(found, Scalar) or not _NUMBER.fullmatch(found.text):
            self.problem(found, f"{key} must be a number", key)
            return None
        return float(found.text)

    def integers(self, node: Mapping, key: str) -> tuple[int, ...] | None:
        """The whole numbers in the list at a key."""
        found = node.get(key)
        if found is None:
            return None
        items = found.items if isinstance(found, Sequence) else [found]
        if any(isinstance(item, Scalar) and holds_placeholder(item.text) for item in items):
            return None
        numbers = [to_int(item.text) if isinstance(item, Scalar) else None for item in items]
        if any(number is None for number in numbers):
            self.problem(found, f"{key} must be a list of whole numbers", key)
            return None
        return tuple(number for number in numbers if number is not None)

    def flag(self, node: Mapping, key: str) -> bool | None:
        """True or false at a key."""
        found = node.get(key)
        if found is None:
            return None
        return isinstance(found, Scalar) and found.text.lower() in TRUE_WORDS

    def configs(self, node: Mapping | None, source: ValueSource) -> Configs:
        """A mapping of configuration keys as values with their places: those of the keys."""
        if node is None or not node.entries:
            return NO_CONFIGS
        place, path, starts = self.document.place, self.document.path, self.document.line_starts
        found: dict[str, DeclaredValue] = {}
        for key, (at, value) in node.entries.items():
            if type(value) is Scalar:
                if not value.is_plain or value.text not in NULLS:
                    line = bisect_right(starts, at.start)
                    where = _place(Place, (path, line, at.start - starts[line - 1] + 1))
                    found[key] = _declared(DeclaredValue, (without_secret(key, value.text), source, where))
            elif isinstance(value, Sequence) and all(isinstance(item, Scalar) for item in value.items):
                text = ",".join(item.text for item in value.items if isinstance(item, Scalar))
                found[key] = DeclaredValue(text, source, place(at.start))
            else:
                self.problem(value, f"the value of {key:.100} must be a text or a number", key)
        return found

    def plain_texts(self, node: Mapping | None) -> dict[str, str]:
        """A mapping of texts."""
        entries = node.entries.values() if node is not None else ()
        return {e.key.text: e.value.text for e in entries if isinstance(e.value, Scalar)}

    def numbers(self, node: Mapping, key: str) -> MappingABC[str, float]:
        """A mapping of numbers at a key."""
        found = self.mapping(node, key)
        read = {name: self.number(found, name) for name in found.entries} if found is not None else {}
        return {name: number for name, number in read.items() if number is not None}


def whole_text(text: str) -> str:
    """A number as JSON tools may write a whole one: `12.0` is `12`."""
    found = _WHOLE_FLOAT.fullmatch(text)
    return found.group(1) if found else text


_ENVS = {
    "prod": ("prod", "production", "prd", "live"),
    "staging": ("staging", "stage", "stg", "preprod", "uat"),
    "dev": ("dev", "development", "test", "testing", "local", "sandbox", "qa", "ci"),
}
OWNER_KEYS = ("owner", "team", "app.kubernetes.io/team", "kafkakit/owner")


def environment_of(word: str | None) -> str | None:
    """One of the kit's environments for the word of another tool, None where it is none of the usual ones."""
    wanted = (word or "").lower()
    return next((env for env, words in _ENVS.items() if wanted in words), None)


def owner_in(*labels: Mapping | None) -> str | None:
    """The owner that labels or annotations name."""
    texts = (part.text(key) for part in labels if part is not None for key in OWNER_KEYS)
    return next((text for text in texts if text), None)


def node_id_of(static: Configs) -> int | None:
    """The id that a node's own configuration gives it."""
    numbers = (to_int(static[key].text) for key in ("node.id", "broker.id") if key in static)
    return next((number for number in numbers if number is not None and number >= 0), None)


def roles_of(static: Configs) -> tuple[str, ...]:
    """The roles that a node's own configuration gives it; without any that a file tells, those of its listeners."""
    found = static.get("process.roles")
    if found is not None and not holds_placeholder(found.text):
        return to_items(found.text) or ("broker",)
    named, listeners = static.get("controller.listener.names"), static.get("listeners")
    of_controllers = to_items(named.text.upper()) if named is not None else ()
    names = [item.partition("://")[0].upper() for item in to_items(listeners.text)] if listeners is not None else []
    return ("controller",) if names and all(name in of_controllers for name in names) else ("broker",)


def dirs_of(static: Configs) -> tuple[LogDirFacts, ...]:
    """The log dirs that a node's own configuration names."""
    found = static.get("log.dirs") or static.get("log.dir")
    return tuple(LogDirFacts(path=path) for path in to_items(found.text)) if found is not None else ()


def metadata_of(root: Mapping) -> Mapping:
    """The metadata of a resource of Kubernetes, empty where it has none."""
    return root.mapping("metadata") or Mapping({}, root.start)


def owner_of(root: Mapping) -> str | None:
    """The owner that a resource's labels or annotations name."""
    metadata = metadata_of(root)
    return owner_in(metadata.mapping("labels"), metadata.mapping("annotations"))


def from_fields(reader: DocumentReader, spec: Mapping, key_of: MappingABC[str, str]) -> dict[str, DeclaredValue]:
    """The settings that have a field of their own in `spec`, by key; `key_of` names the key of each field."""
    return {
        key: DeclaredValue(text, ValueSource.STATIC, reader.place(spec.entries[field].key))
        for field, key in key_of.items()
        if (text := reader.text(spec, field)) is not None
    }
