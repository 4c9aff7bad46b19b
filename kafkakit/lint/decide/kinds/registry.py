"""The kinds of files: which one a file is of, and reading its text into pieces."""

import gc
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Place
from kafkakit.lint.decide.comment_values import comment_problems
from kafkakit.lint.decide.documents.formats import read_document
from kafkakit.lint.decide.documents.tree import UNPARSABLE, Document, Node
from kafkakit.lint.decide.documents.tree import Mapping as MappingNode
from kafkakit.lint.decide.kinds import (
    connectors,
    datadog_agent,
    kafkakit_cluster,
    reassignment,
    server_properties,
    snapshot,
    strimzi,
    terraform_plan,
    topicctl,
)
from kafkakit.lint.decide.kinds.kind import Kind, joined
from kafkakit.lint.decide.pieces import FileProblem, Pieces
from kafkakit.rules.rule import Edit

UNKNOWN_KIND = "KKL007"
MOST_PROBLEMS = 1_000
"""How many problems of syntax and repeated keys are kept for one file."""
_TEMPLATE = re.compile(r"\{\{|\{%|<%")
_TELLING = re.compile(
    r"kafkakit: *cluster|kafka\.strimzi\.io/|kafka_connect_str|bootstrapAddrs|replicationFactor|replication_factor"
    r"|retention\.ms|min\.insync\.replicas|process\.roles|log\.dirs|connector\.class|cluster-snapshot"
)
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        kafkakit_cluster.KIND,
        strimzi.KIND,
        topicctl.KIND,
        terraform_plan.KIND,
        reassignment.KIND,
        datadog_agent.CONSUMER_KIND,
        datadog_agent.JMX_KIND,
        connectors.CONNECTOR_KIND,
        connectors.WORKER_KIND,
        server_properties.KIND,
        snapshot.KIND,
    )
}
"""In the order in which they are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """One file as read: its document, the kinds found in it (none for a file that is no concern of lint), pieces."""

    document: Document
    kinds: tuple[str, ...]
    pieces: Pieces


def read_text(path: str, text: str, kind: str | None = None, is_named: bool = False) -> FileReading:
    """Read one file's text; never raises but for a kind that does not exist.

    Args:
        path: Names the file in places, and tells the format and the kind where the content does not.
        text: The content, decoded.
        kind: The name of the kind it must be read as, None to detect it.
        is_named: The file was given by its name, so an unknown kind is a problem.
    """
    forced = kind_named(kind) if kind is not None else None
    with _no_collection():
        return _read(path, text, forced, is_named)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Holds the search for circular garbage: trees have none, and looking through them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(path: str, text: str, forced: Kind | None, is_named: bool) -> FileReading:
    if forced is snapshot.KIND or (forced is None and snapshot.is_snapshot(text)):
        whole = Document(path, text, "json")
        return FileReading(document=whole, kinds=(snapshot.KIND.name,), pieces=snapshot.KIND.read(whole, ()))
    document = read_document(path, text, forced.formats if forced is not None else ())
    by_kind = _by_kind(document, forced)
    pieces = [KINDS[name].read(document, tuple(roots)) for name, roots in by_kind.items()]
    is_concern = bool(by_kind) or is_named or forced is not None or looks_known(path, text)
    problems = _problems(document, is_concern)
    if by_kind:
        problems = (*problems, *comment_problems(document))
    if not by_kind and is_named and not document.has_broken_syntax:
        problems = (*problems, _unknown(document))
    return FileReading(document=document, kinds=tuple(by_kind), pieces=joined([*pieces, Pieces(problems=problems)]))


def kind_named(name: str) -> Kind:
    """The kind of a name; `UsageError` for one that does not exist."""
    found = KINDS.get(name)
    if found is None:
        raise UsageError(f"no kind of file is called {name!r:.60}", hint=f"kinds: {', '.join(sorted(KINDS))}")
    return found


def _by_kind(document: Document, forced: Kind | None) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for root in document.roots:
        kind = forced or _kind_of(document, root)
        if kind is not None:
            found.setdefault(kind.name, []).append(root)
    return found


def _kind_of(document: Document, root: Node) -> Kind | None:
    able = [kind for kind in KINDS.values() if document.format in kind.formats]
    recognised = next((kind for kind in able if kind.recognise(root)), None)
    if recognised is not None or not isinstance(root, MappingNode):
        return recognised
    return next((kind for kind in able if _matches(document.path, kind.patterns)), None)


def looks_known(path: str, text: str) -> bool:
    """True for a file that would be of a known kind if it could be read; templates of other tools are not."""
    if _TEMPLATE.search(text):
        return False
    return _TELLING.search(text) is not None or any(_matches(path, kind.patterns) for kind in KINDS.values())


def _matches(path: str, patterns: Sequence[str]) -> bool:
    slashed = "/" + path.replace("\\", "/").lower()
    return any(fnmatchcase(slashed, f"*/{pattern}") for pattern in patterns)


def _problems(document: Document, is_concern: bool) -> tuple[FileProblem, ...]:
    if not is_concern:
        return ()
    return tuple(
        FileProblem(
            rule=p.rule,
            message=p.message,
            place=document.place(p.at),
            key=p.key,
            edits=(Edit(p.key, is_safe=True),) if p.key is not None and p.is_repeated_value else (),
        )
        for p in document.problems[:MOST_PROBLEMS]
    )


def _unknown(document: Document) -> FileProblem:
    return FileProblem(
        rule=UNKNOWN_KIND,
        message="the file is of no kind that lint knows, so nothing of it was checked",
        place=Place(document.path, 1),
    )


def unreadable(path: str, message: str, before: str = "") -> FileReading:
    """The reading of a file that could not be read at all; `before` is the text up to where that shows."""
    document = Document(path, before, "yaml")
    problem = FileProblem(rule=UNPARSABLE, message=message, place=document.place(len(before)))
    return FileReading(document=document, kinds=(), pieces=Pieces(problems=(problem,)))
