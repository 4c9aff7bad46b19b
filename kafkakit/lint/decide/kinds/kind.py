"""What a kind of file is: one record that recognises it and reads it into pieces."""

from collections.abc import Callable
from dataclasses import dataclass

from kafkakit.lint.decide.documents.tree import Document, Mapping, Node
from kafkakit.lint.decide.pieces import Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of file.

    `patterns` are file names (shell patterns over the path) that tell the kind where the content does not.
    `recognise` is called with each document of a file; `read` with the file and those of its documents that are of
    this kind, and never raises.
    """

    name: str
    about: str
    formats: tuple[str, ...]
    recognise: Callable[[Node], bool]
    read: Callable[[Document, tuple[Node, ...]], Pieces]
    patterns: tuple[str, ...] = ()


def joined(parts: list[Pieces]) -> Pieces:
    """Several pieces of one file as one."""
    return Pieces(
        clusters=tuple(piece for part in parts for piece in part.clusters),
        brokers=tuple(piece for part in parts for piece in part.brokers),
        topics=tuple(piece for part in parts for piece in part.topics),
        assignments=tuple(piece for part in parts for piece in part.assignments),
        agents=tuple(piece for part in parts for piece in part.agents),
        connectors=tuple(piece for part in parts for piece in part.connectors),
        problems=tuple(piece for part in parts for piece in part.problems),
    )


def of_each(read_one: Callable[[Document, Mapping], Pieces]) -> Callable[[Document, tuple[Node, ...]], Pieces]:
    """Reads a file mapping by mapping."""

    def read(document: Document, roots: tuple[Node, ...]) -> Pieces:
        return joined([read_one(document, root) for root in roots if isinstance(root, Mapping)])

    return read
