"""The kinds of files: which one a file is of, and reading its text into pieces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Place
from kafkakit.lint.decide.documents.tree import UNPARSABLE, Document, Node
from kafkakit.lint.decide.documents.tree import Mapping as MappingNode
from kafkakit.lint.decide.documents.yaml_text import read_yaml
from kafkakit.lint.decide.kinds import kafkakit_cluster
from kafkakit.lint.decide.kinds.kind import Kind, joined
from kafkakit.lint.decide.pieces import FileProblem, Pieces

UNKNOWN_KIND = "KKL007"
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (kafkakit_cluster.KIND,)}


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
    document = _document(path, text)
    by_kind = _by_kind(document, forced)
    pieces = [KINDS[name].read(document, tuple(roots)) for name, roots in by_kind.items()]
    problems = _problems(document, bool(by_kind) or is_named or forced is not None or _looks_known(path))
    if not by_kind and is_named and not document.has_broken_syntax:
        problems = (*problems, _unknown(document))
    return FileReading(document=document, kinds=tuple(by_kind), pieces=joined([*pieces, Pieces(problems=problems)]))


def kind_named(name: str) -> Kind:
    """The kind of a name; `UsageError` for one that does not exist."""
    found = KINDS.get(name)
    if found is None:
        raise UsageError(f"no kind of file is called {name!r:.60}", hint=f"kinds: {', '.join(sorted(KINDS))}")
    return found


def _document(path: str, text: str) -> Document:
    return read_yaml(path, text)


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


def _looks_known(path: str) -> bool:
    return any(_matches(path, kind.patterns) for kind in KINDS.values())


def _matches(path: str, patterns: Sequence[str]) -> bool:
    slashed = "/" + path.replace("\\", "/").lower()
    return any(fnmatchcase(slashed, f"*/{pattern}") for pattern in patterns)


def _problems(document: Document, is_concern: bool) -> tuple[FileProblem, ...]:
    if not is_concern:
        return ()
    return tuple(
        FileProblem(rule=p.rule, message=p.message, place=document.place(p.at), key=p.key) for p in document.problems
    )


def _unknown(document: Document) -> FileProblem:
    return FileProblem(
        rule=UNKNOWN_KIND,
        message="the file is of no kind that lint knows, so nothing of it was checked",
        place=Place(document.path, 1),
    )


def file_problem(path: str, message: str) -> Pieces:
    """The pieces of a file that could not be read at all."""
    return Pieces(problems=(FileProblem(rule=UNPARSABLE, message=message, place=Place(path, 1)),))
