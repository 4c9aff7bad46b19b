"""The pacer's service over HTTP: kafka-kit's admin API, health and metrics, behind a token."""

from collections.abc import Callable
from hmac import compare_digest

from kafkakit.autothrottle.act.overrides import OverrideStore
from kafkakit.autothrottle.decide.api import Refusal, is_api, perform, read_call, refusal_page
from kafkakit.core.errors import InputError, KafkakitError, TryLaterError
from kafkakit.core.http_page import HttpPage, HttpRequest, Pages, plain_page


class PacerApi:
    """Answers requests of any thread. Everything but local reads needs the token, unless there is none (`token` "").

    Without one only local requests are answered, which is what kafka-kit does on its default address. `log` gets
    kafka-kit's line for each request but those for `pages`.
    """

    def __init__(
        self,
        overrides: OverrideStore,
        pages: Pages,
        token: str | None,
        wake: Callable[[], None],
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._overrides, self._pages, self._token, self._wake, self._log = overrides, pages, token, wake, log

    def answer(self, request: HttpRequest) -> HttpPage:
        """The answer to one request; 401 or 403 where it may not be made."""
        if request.path not in self._pages:
            self._log(f"[API] {request.method} {request.uri} {request.remote}")
        if (refused := self._refused(request)) is not None:
            return refused
        if not is_api(request.path):
            page = self._pages.get(request.path)
            if page is None:
                return plain_page(404, "404 page not found")
            return page(request.query) if request.method in ("GET", "HEAD") else plain_page(405, "disallowed method")
        as_json = "application/json" in request.accept
        call = read_call(request)
        if isinstance(call, Refusal):
            return refusal_page(call, as_json=as_json)
        try:
            page_of_call = perform(call, self._overrides.read, self._overrides.put, as_json=as_json)
        except InputError as error:
            return refusal_page(Refusal(text=error.message), as_json=as_json)
        except KafkakitError as error:
            status = 503 if isinstance(error, TryLaterError) else 500
            return refusal_page(Refusal(text=error.message, json_status=status), as_json=as_json)
        if request.method == "POST":
            self._wake()
        return page_of_call

    def _refused(self, request: HttpRequest) -> HttpPage | None:
        if request.is_local and (request.method in ("GET", "HEAD") or self._token == ""):
            return None
        if not self._token:
            return plain_page(403, "needs a token: start the service with --token-file")
        if compare_digest(request.authorization.encode(), f"Bearer {self._token}".encode()):
            return None
        return plain_page(401, "needs the header Authorization: Bearer TOKEN")
