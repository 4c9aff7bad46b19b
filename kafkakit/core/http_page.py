"""A request to a service over HTTP, and its answer, as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPage:
    """One answer of a service over HTTP."""

    body: bytes
    media: str
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request without its body; of a key that is given twice `query` has the first value, as in Go.

    `uri` is path and query as they came, and `remote` the client's address with its port. `authorization` and `accept`
    are the headers' texts, `is_local` whether it came over the loopback interface.
    """

    method: str
    path: str
    query: Query
    remote: str
    is_local: bool
    authorization: str = ""
    accept: str = ""
    uri: str = ""


Pages = Mapping[str, Callable[[Query], HttpPage]]


def plain_page(status: int, text: str) -> HttpPage:
    """An answer of one line."""
    return HttpPage(body=f"{text}\n".encode(), media="text/plain; charset=utf-8", status=status)


def answer_pages(pages: Pages) -> Callable[[HttpRequest], HttpPage]:
    """Answers GET and HEAD for the paths given, 404 with their names for others."""

    def answer(request: HttpRequest) -> HttpPage:
        if request.method not in ("GET", "HEAD"):
            return plain_page(501, "only GET and HEAD are answered")
        page = pages.get(request.path)
        return plain_page(404, "there is " + " ".join(sorted(pages))) if page is None else page(request.query)

    return answer
