"""The one seam to Kafka, librdkafka behind it, and a Kafka of this machine.

    port          what driftline needs from a log: Broker, Producer, Reader, GroupReader, Admin
    kafka/        that, with librdkafka
    embedded/     starts and stops an Apache Kafka on this machine
    topics        names and settings of the topics of a run
    topic_check   whether existing topics serve a run
    clients       what every implementation of clients shares

Entry points: ``kafka.KafkaBroker``, ``embedded.EmbeddedBroker``, ``topics.run_topics``.
The other implementation, in memory, is for tests: ``driftline.testing.memory``.

Imports ``telemetry`` and ``errors``. Never here: the meaning of a record's bytes, runs, or PyTorch.
"""
