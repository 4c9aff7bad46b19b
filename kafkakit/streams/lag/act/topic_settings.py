"""Reading the settings of topics that bear on their lag."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import KafkakitError
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.streams.lag.decide.measure.topic_facts import BROKER_KEYS, facts_of
from kafkakit.streams.lag.decide.measure.topics import TopicFacts

FactsOf = Callable[[Sequence[str]], Mapping[str, TopicFacts]]


def read_topic_facts(open_admin: Callable[[], ClusterAdmin], topics: Sequence[str]) -> Mapping[str, TopicFacts]:
    """`topic_facts` with a client of its own."""
    with closing(open_admin()) as admin:
        return topic_facts(admin, topics)


def topic_facts(admin: ClusterAdmin, topics: Sequence[str]) -> Mapping[str, TopicFacts]:
    """The facts of each topic from its own settings and, for the rest, those of one living broker."""
    brokers = sorted(b.id for b in admin.cluster().brokers if b.is_alive)
    settings = admin.broker_settings(brokers[:1], BROKER_KEYS)
    defaults = next(iter(settings.values()), {})
    return facts_of(admin.dynamic_configs(ResourceKind.TOPIC, topics), defaults)


class TopicSettings:
    """Settings of new topics at once, of all topics on request. `facts_of` None reads none. For one thread."""

    def __init__(self, facts_of: FactsOf | None) -> None:
        self._facts_of = facts_of
        self._known: frozenset[str] = frozenset()

    def read(self, topics: tuple[str, ...], *, refresh: bool) -> Mapping[str, TopicFacts]:
        """The facts of topics that are new, or with `refresh` of all; none where they cannot be read."""
        names = topics if refresh else tuple(name for name in topics if name not in self._known)
        if self._facts_of is None or not names:
            return {}
        self._known = frozenset(topics)
        try:
            return self._facts_of(names)
        except KafkakitError:
            return {}  # without settings a topic claims the least
