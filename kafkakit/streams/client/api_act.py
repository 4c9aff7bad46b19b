"""What other tools use of `streams client`: the registrations in a control store."""

from kafkakit.streams.client.registrar import read_clients

__all__ = ["read_clients"]
