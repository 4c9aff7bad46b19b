"""The page of the service: one document with its style and script, and the headers that keep everything else out.

The script is plain JavaScript, which reads version 2 of the same server and shows everything as text.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256

from kafkakit.core.rpc import RpcAnswer
from kafkakit.report.pages import html_page, package_text


def registry_page(profile: str = "", cluster_id: str = "") -> RpcAnswer:
    """The page as an answer over HTTP; it names the profile and the cluster, where they are known."""
    title = " ".join(filter(None, ("Registry", profile, cluster_id and f"(cluster {cluster_id})")))
    return RpcAnswer(body=html_page("registry.html", title=title), headers=_headers())


@cache
def _headers() -> tuple[tuple[str, str], ...]:
    # The style and the script of this document alone, calls to this server alone, and no text that becomes markup.
    policy = (
        "default-src 'none'",
        f"script-src {_hash('registry.js')}",
        f"style-src {_hash('base.css', 'registry.css')}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", "; ".join(policy)),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-cache"),
    )


def _hash(*names: str) -> str:
    text = "".join(package_text(name) for name in names)
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
