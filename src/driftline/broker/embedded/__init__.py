"""Apache Kafka on this machine, without Docker and without an installed Java."""
