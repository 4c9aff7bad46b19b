"""The replies to version 2's reads of the inventory."""

from collections.abc import Callable, Mapping
from typing import Any

from kafkakit.registry.decide.inventory import Inventory
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.decide.v2.events import EventLog
from kafkakit.registry.decide.v2.messages import (
    AnyV2Reply,
    AnyV2Request,
    BrokerPage,
    BrokerView,
    ExplainReply,
    ExplainRequest,
    GetBrokerRequest,
    GetTopicRequest,
    ListRequest,
    TopicPage,
    TopicView,
)
from kafkakit.registry.decide.v2.pages import next_token, order_of, page_after, page_size, read_token
from kafkakit.registry.decide.v2.selection import Selection
from kafkakit.registry.decide.v2.views import missing, parse_mask, view_of


class ReadsV2:
    """Answers from an inventory; a list names the latest event that is in it."""

    def __init__(self, inventory: Inventory, events: EventLog) -> None:
        self._inventory, self.events = inventory, events
        self.selection = Selection(inventory)
        self._calls: Mapping[str, Callable[[Any], AnyV2Reply]] = {
            "ListTopics": lambda request: self._list(Kind.TOPIC, request),
            "ListBrokers": lambda request: self._list(Kind.BROKER, request),
            "GetTopic": self._get_topic,
            "GetBroker": self._get_broker,
            "Explain": self._explain,
        }

    def answers(self, name: str) -> bool:
        """Whether a call is one of these."""
        return name in self._calls

    def answer(self, name: str, request: AnyV2Request) -> AnyV2Reply:
        """The reply; `RpcError` for what has none."""
        return self._calls[name](request)

    def _list(self, kind: Kind, request: ListRequest) -> TopicPage | BrokerPage:
        mask, size, question = parse_mask(kind, request.fields), page_size(request.page_size), (kind, request.query)
        last = read_token(question, request.page_token)
        names = self.selection.names(kind, request.query)
        shown = page_after(names, last, size, order_of(kind))
        views = [view for name in shown if (view := view_of(kind, name, self._inventory, mask)) is not None]
        is_end = not shown or shown[-1] == names[-1]
        token, total = "" if is_end else next_token(question, shown[-1]), len(names)
        event_id = self.events.id_of(self.events.last)
        if kind is Kind.TOPIC:
            topics = tuple(view for view in views if isinstance(view, TopicView))
            return TopicPage(topics=topics, next_page_token=token, total=total, event_id=event_id)
        brokers = tuple(view for view in views if isinstance(view, BrokerView))
        return BrokerPage(brokers=brokers, next_page_token=token, total=total, event_id=event_id)

    def _get_topic(self, request: GetTopicRequest) -> AnyV2Reply:
        return self._get(Kind.TOPIC, request.name, request.fields)

    def _get_broker(self, request: GetBrokerRequest) -> AnyV2Reply:
        return self._get(Kind.BROKER, str(request.id), request.fields)

    def _get(self, kind: Kind, name: str, fields: tuple[str, ...]) -> TopicView | BrokerView:
        found = view_of(kind, name, self._inventory, parse_mask(kind, fields))
        if found is None:
            raise missing(kind, name)
        return found

    def _explain(self, request: ExplainRequest) -> AnyV2Reply:
        matches, reasons = self.selection.explain(Kind(request.kind), request.name, request.query)
        return ExplainReply(matches=matches, reasons=reasons)
