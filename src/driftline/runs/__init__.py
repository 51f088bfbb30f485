"""Runs as things on a Kafka: create, stop, delete, list, name."""
