"""The options of `streams topology` about pathways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkakit.streams.model.route import Route
    from kafkakit.streams.pathways.api import SeenEdges
    from kafkakit.streams.routes.commands.stream_options import StreamSession
    from kafkakit.streams.routes.decide.observed import RouteFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PathwayOptions:
    """Which edges between streams are looked for."""

    pathways: bool = option(False, "--pathways", help="Show edges between streams that records prove.")
    service: list[str] | None = option(
        None, "--service", metavar="NAME", help="A service that may read and write streams. Repeatable."
    )
    env: str = option("none", "--env", metavar="NAME", help="The environment of the services, as their tracers say it.")
    records: int = option(
        1000, "--records", metavar="N", min=1, max=1_000_000, help="Read the newest N records of each topic."
    )

    def look(
        self, streams: StreamSession, observed: Sequence[tuple[Route, RouteFacts]]
    ) -> tuple[SeenEdges | None, Sequence[str]]:
        """The edges, None unless they are wanted, and what could not be read."""
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.routes.act.pathways import PathwayObserver

        if not self.pathways:
            if self.service:
                raise UsageError("--service is for --pathways")
            return None, ()
        observer = PathwayObserver(
            streams.cluster,
            streams.home.clock,
            records=self.records,
            wait_s=streams.home.settings.request_timeout_s,
        )
        return observer.look(observed, tuple(dict.fromkeys(self.service or ())), self.env), observer.problems
