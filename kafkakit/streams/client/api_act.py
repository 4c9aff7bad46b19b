"""What other tools use of the client: what applications use, but `connect`, which composes it, and registrations."""

from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letter_lane import BOMB_REASON
from kafkakit.streams.client.decide.failures import DependencyDownError
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.rules import RetryRule, WorkRules
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.options import ConsumerOptions
from kafkakit.streams.client.producer import Producer
from kafkakit.streams.client.records import StreamRecord
from kafkakit.streams.client.registrar import read_clients
