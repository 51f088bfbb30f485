"""Training that runs through Kafka and can be trusted: the log is the training run."""

__version__ = "0.1.0"
