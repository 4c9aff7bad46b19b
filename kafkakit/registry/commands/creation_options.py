"""The options of a new topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.cluster_words import BROKER_IDS
from kafkakit.cli.option_groups import option
from kafkakit.core.errors import UsageError
from kafkakit.registry.commands.completion_options import complete_tags

if TYPE_CHECKING:
    from kafkakit.registry.client import RegistryClient
    from kafkakit.registry.decide.entries import TopicEntry
    from kafkakit.registry.decide.requests import CreateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicOptions:
    """What a new topic is, and which brokers may hold it."""

    partitions: int = option(1, "--partitions", min=1, help="Number of partitions.")
    replication: int = option(3, "--replication", min=1, help="Copies of each partition.")
    configs: list[str] | None = option(None, "--topic-config", metavar="KEY=VALUE", help="A setting. Repeatable.")
    tags: list[str] | None = option(
        None, "--tag", metavar="KEY:VALUE", help="A tag. Repeatable.", autocompletion=complete_tags
    )
    target_tags: list[str] | None = option(
        None,
        "--target-tag",
        metavar="KEY:VALUE",
        help="Only brokers with this tag. Repeatable.",
        autocompletion=complete_tags,
    )
    target_brokers: str | None = option(None, "--target-brokers", **BROKER_IDS, help="Only these brokers.")

    def request(self, name: str) -> CreateRequest:
        """The request; raises `UsageError` for a text that cannot be read."""
        from kafkakit.registry.decide.creation import read_creation
        from kafkakit.registry.decide.requests import CreateRequest
        from kafkakit.registry.decide.tags import Kind, require_tag_texts, tags_to_set

        require_tag_texts((*(self.tags or ()), *(self.target_tags or ())))
        ids = [text.strip() for text in (self.target_brokers or "").split(",") if text.strip()]
        if not all(text.isascii() and text.isdigit() and len(text) <= 10 for text in ids):
            raise UsageError(f"--target-brokers {self.target_brokers!r:.100} is no list of ids")
        configs = dict(text.partition("=")[::2] for text in self.configs or ())
        if any("=" not in text for text in self.configs or ()):
            raise UsageError("--topic-config must be KEY=VALUE")
        request = CreateRequest(
            topic={
                "name": name,
                "partitions": self.partitions,
                "replication": self.replication,
                "configs": configs,
                "tags": tags_to_set(Kind.TOPIC, self.tags) if self.tags else {},
            },
            target_broker_tags=tuple(self.target_tags or ()),
            target_broker_ids=tuple(map(int, ids)),
        )
        read_creation(request)
        return request

    def check(self, client: RegistryClient, request: CreateRequest) -> None:
        """Raise `UsageError` where the topic exists, or where too few brokers may hold it."""
        name = str(request.topic and request.topic["name"])
        if name in client.topic_names():
            raise UsageError(f"topic {name} exists already")
        brokers = client.brokers(request.target_broker_tags)
        fit = set(request.target_broker_ids) & set(brokers) if request.target_broker_ids else set(brokers)
        if wrong := sorted(set(request.target_broker_ids) - fit):
            raise UsageError(f"not alive, or without the tags: broker {', '.join(map(str, wrong))}")
        if len(fit) < self.replication:
            raise UsageError(f"{len(fit)} brokers may hold the topic: too few for {self.replication} replicas")


def existing_topic(client: RegistryClient, name: str) -> TopicEntry:
    """The topic of a name; `UsageError` names the nearest where there is none."""
    from kafkakit.registry.decide.selection import exact_names
    from kafkakit.registry.decide.tags import Kind

    topics = client.topics()
    exact_names(Kind.TOPIC, [name], topics)
    return topics[name]
