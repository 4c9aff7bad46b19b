"""The page of the service: one document with its style and script, and the headers that keep everything else out."""

from base64 import b64encode
from hashlib import sha256

from kafkakit.core.rpc import RpcAnswer
from kafkakit.registry.show.page_script import SCRIPT
from kafkakit.report.markup import CSS, Child, Html, el

STYLE = (
    CSS
    + """
:root{--edge:#6e7781;--link:#0550ae;--mark:#ffd8b5}
@media(prefers-color-scheme:dark){:root{--edge:#8b949e;--link:#79b8ff;--mark:#6b3a00}}
h1,p,dialog{overflow-wrap:anywhere}a{color:var(--link)}mark{background:var(--mark);color:var(--fg)}
button,input{font:inherit;color:var(--fg);background:var(--bg);border:1px solid var(--edge);border-radius:6px;
padding:.3rem .7rem;min-height:2rem}button{cursor:pointer;background:var(--card)}
button:disabled{color:var(--soft);cursor:default;border-style:dashed}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
label{font-weight:600}.row{display:flex;flex-wrap:wrap;gap:.5rem;align-items:center;margin:.5rem 0}
.row input{flex:1 1 12rem;min-width:0}
[role=tablist]{display:flex;gap:.3rem;margin:1rem 0 .5rem;border-bottom:1px solid var(--edge)}
[role=tab]{border-radius:6px 6px 0 0;border-bottom:0;background:none}
[role=tab][aria-selected=true]{background:var(--card);font-weight:700;box-shadow:inset 0 3px var(--link)}
[aria-invalid=true]{border:2px solid var(--warn)}[role=alert]:not(:empty){border-left:4px solid var(--warn);
background:var(--warnbg);padding:.2rem .9rem}
.sort{border:0;background:none;padding:.2rem 0;font-weight:600;color:var(--soft);white-space:nowrap}
#found th[scope=row],#found td:last-child{min-width:9rem}
td,th,dd,.tag{unicode-bidi:isolate}tbody th{color:var(--fg);font-size:1em;font-weight:400;overflow-wrap:anywhere}
.tag{display:inline-block;background:var(--code);border-radius:4px;padding:0 .4rem;margin:.05rem 0}
dialog{width:min(60rem,94vw);max-height:92vh;color:var(--fg);background:var(--bg);border:1px solid var(--edge);
border-radius:8px;padding:0 1.2rem 1.2rem}dialog::backdrop{background:#000a}
dialog h2{border:0;margin:0;padding:0;overflow-wrap:anywhere;flex:1}dialog .row{position:sticky;top:0;
background:var(--bg);padding:.7rem 0;margin:0}
"""
)


def registry_page(profile: str = "", cluster_id: str = "") -> RpcAnswer:
    """The page as an answer over HTTP; it names the profile and the cluster, where they are known."""
    title = " ".join(filter(None, ("Registry", profile, cluster_id and f"(cluster {cluster_id})")))
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("link", rel="icon", href="data:,"),
        Html(f"<style>{STYLE}</style>"),
    )
    body = el("body", el("main", *_content(title)), _details(), Html(f"<script>{SCRIPT}</script>"))
    document = f"<!doctype html>\n{el('html', head, body, lang='en')}\n".encode("utf-8", "replace")
    return RpcAnswer(body=document, headers=_HEADERS)


def _content(title: str) -> tuple[Child, ...]:
    return (
        el("h1", title),
        _row(el("span", "Nothing was read yet.", id="fresh", class_="soft"), _button("reload", "Reload")),
        el("noscript", el("p", "This page needs JavaScript; the calls of /v2 do not.", class_="warn")),
        el("div", _tab("topic", "Topics"), _tab("broker", "Brokers"), role="tablist", aria_label="Kinds of objects"),
        el("section", *_panel(), id="panel", role="tabpanel", aria_labelledby="tab-topic"),
        el(
            "details",
            el("summary", "Token"),
            el("p", "For a server that asks for one. It is kept until this page is closed or loaded again, and not "
               "stored.", id="token-help"),
            _row(
                el("label", "Token", for_="token"),
                el("input", id="token", type="password", autocomplete="off", aria_describedby="token-help"),
                _button("use", "Use"),
            ),
            el("p", "No token is used.", id="token-state", role="status"),
            id="access",
        ),
    )  # fmt: skip


def _panel() -> tuple[Html, ...]:
    free_text = {"spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}
    example = 'partitions >= 12 and team in ("payments", "orders")'
    return (
        el(
            "form",
            _row(
                el("label", "Query", for_="query"),
                el("input", id="query", type="search", maxlength=4096, aria_describedby="help error", **free_text),
                el("button", "Find", type="submit"),
            ),
            el("p", "Such as ", el("code", example), ". Keys are ", el("span", id="keys"), " and those of tags.",
               id="help", class_="soft"),
            el("div", id="error", role="alert"),
            id="search",
            role="search",
        ),
        el("p", id="count", role="status"),
        el(
            "div",
            el("table", el("caption", id="caption"), el("thead", el("tr", id="heads")), el("tbody", id="rows"),
               id="found", aria_busy="true"),
            class_="wide", role="region", aria_labelledby="caption", tabindex=0,
        ),
        el("nav", _row(_button("back", "Previous"), el("span", id="place"), _button("next", "Next")),
           aria_label="Pages"),
        el(
            "details",
            el("summary", "Why is an object found or not?"),
            el(
                "form",
                _row(
                    el("label", "Name", for_="which", id="which-label"),
                    el("input", id="which", required="required", **free_text),
                    el("button", "Explain", type="submit"),
                ),
                id="explain",
            ),
            el("div", id="reasons", role="status"),
        ),
    )  # fmt: skip


def _details() -> Html:
    top = _row(el("h2", id="details-name", tabindex=-1, autofocus="autofocus"), _button("close", "Close"))
    return el("dialog", top, el("div", id="facts"), id="details", aria_labelledby="details-name")


def _tab(kind: str, title: str) -> Html:
    return el("button", title, type="button", role="tab", id=f"tab-{kind}", data_kind=kind, aria_controls="panel")


def _button(name: str, title: str) -> Html:
    return el("button", title, type="button", id=name)


def _row(*children: Child) -> Html:
    return el("div", *children, class_="row")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


# The style and the script of this document alone, calls to this server alone, and no text that becomes markup.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(SCRIPT)}",
        f"style-src {_hash(STYLE)}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-cache"),
)
