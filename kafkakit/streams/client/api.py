"""What other tools use of `streams client`: what clients write about themselves."""

from kafkakit.streams.client.decide.registration import ClientKind, ClientRegistration

__all__ = ["ClientKind", "ClientRegistration"]
