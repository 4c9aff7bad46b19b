"""One self-contained page about a plan."""

from html import escape

from kafkakit.topicmappr.plan import Plan


def report_page(plan: Plan, *, next_command: str | None = None) -> bytes:
    """The page as UTF-8 HTML."""
    return f"<!doctype html><title>{escape(plan.cluster_id)}</title>{escape(next_command or '')}".encode()
