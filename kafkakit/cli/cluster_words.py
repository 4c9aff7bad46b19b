"""How topics and brokers are named on every command line: two notations, each with its completion."""

from collections.abc import Mapping
from typing import Any

from kafkakit.cli.completion import complete_broker_ids, complete_group_names, complete_topic_names

TOPICS, BROKERS = "TOPICS", "BROKERS"
GRAMMAR: Mapping[str, str] = {
    TOPICS: "names or regular expressions, comma separated, or 'where QUERY'",
    BROKERS: "ids, comma separated, -1 (brokers in use), -2 (all brokers), or 'where QUERY'",
}
"""What help prints below the options of a command that takes them."""

TOPIC_CHOICE: Mapping[str, Any] = {"metavar": TOPICS, "autocompletion": complete_topic_names}
BROKER_CHOICE: Mapping[str, Any] = {"metavar": BROKERS, "autocompletion": complete_broker_ids}
BROKER_IDS: Mapping[str, Any] = {"metavar": "ID,...", "autocompletion": complete_broker_ids}
"""Details of `typer.Option` and `option` for a choice of topics, of brokers, and of brokers by their ids alone."""

TOPIC_NAME: Mapping[str, Any] = {"metavar": "TOPIC", "autocompletion": complete_topic_names}
BROKER_ID: Mapping[str, Any] = {"metavar": "ID", "autocompletion": complete_broker_ids}
GROUP_NAME: Mapping[str, Any] = {"metavar": "GROUP", "autocompletion": complete_group_names}
"""Details of `typer.Option` and `option` for one topic, one broker and one group."""
