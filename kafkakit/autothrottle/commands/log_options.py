"""What the service tells while it runs: lines on stderr, and events to Datadog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from contextlib import ExitStack

    from kafkakit.autothrottle.act.events import EventSender
    from kafkakit.autothrottle.commands.metrics_options import MetricsChoice
    from kafkakit.autothrottle.decide.tick import Tick
    from kafkakit.cli.session import ClusterSession


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChoice:
    """Events to Datadog, as kafka-kit sends them."""

    dd_events: bool | None = option(
        None,
        "--dd-events/--no-dd-events",
        help="Send events to Datadog for what changed, as kafka-kit does; usual where traffic is from there.",
    )
    dd_event_tags: str = option(
        "", envvar="AUTOTHROTTLE_DD_EVENT_TAGS", metavar="TAG,...", help="More tags of these events."
    )

    def open(self, stack: ExitStack, session: ClusterSession, metrics: MetricsChoice) -> EventSender | None:
        """What sends them until `stack` ends, None for no events; raises `UsageError` where there is no key."""
        from contextlib import closing

        from kafkakit.autothrottle.act.events import EventSender
        from kafkakit.autothrottle.commands.metrics_options import KEY_PREFIX
        from kafkakit.autothrottle.decide.events import event_tags
        from kafkakit.cli.metrics_options import MetricsSource
        from kafkakit.wiring import open_datadog_events

        wanted = metrics.kind is MetricsSource.DATADOG if self.dd_events is None else self.dd_events
        if not wanted:
            return None
        warn = session.cli.output.warn
        api = open_datadog_events(metrics.datadog_site, metrics.api_key_file, warn, KEY_PREFIX)
        return stack.enter_context(closing(EventSender(api.send_event, event_tags(self.dd_event_tags), warn)))


class ServiceLog:
    """Lines on stderr; with `-o json` each is one JSON object, and those of ticks have the whole tick."""

    def __init__(self, session: ClusterSession, events: EventSender | None) -> None:
        from kafkakit.cli.output import OutputFormat

        self._session, self._events = session, events
        self._is_json = session.cli.output.output_format is OutputFormat.JSON

    def say(self, line: str, tick: Tick | None = None) -> None:
        """Write one line; for any thread."""
        from kafkakit.autothrottle.show.tick import log_line

        session = self._session
        session.cli.output.say(log_line(session.clock.now(), line, tick) if self._is_json else line)

    def tick(self, tick: Tick) -> None:
        """Write the line of a tick, and send its events."""
        from kafkakit.autothrottle.show.tick import tick_line

        self.say(tick_line(tick), tick)
        if self._events is not None:
            self._events.see(tick)
