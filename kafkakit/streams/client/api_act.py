"""What other tools use of the client: what applications use, but `connect`, which composes it, and registrations."""

from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.control_store import read_clients
from kafkakit.streams.client.dead_letters import BOMB_REASON, ConsumerOptions
from kafkakit.streams.client.decide.outgoing import BackPressureError, ProducerLimits
from kafkakit.streams.client.decide.work_rules import DependencyDownError, RetryRule, WorkRules
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.producer import Producer
from kafkakit.streams.client.workers import StreamRecord
