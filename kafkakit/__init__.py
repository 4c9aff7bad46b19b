"""Kafka operations toolkit: placement, reassignment, throttling, registry, streams, lint, audits."""

__version__ = "0.1.0"
