"""The one seam to Kafka, with two implementations behind it, and a Kafka of this machine.

    port          what driftline needs from a log: Broker, Producer, Reader, GroupReader, Admin
    kafka/        that, with librdkafka
    memory/       that, in this process's memory, with faults on request
    embedded/     starts and stops an Apache Kafka on this machine
    topics        names and settings of the topics of a run
    topic_check   whether existing topics serve a run
    clients       what the clients of both implementations share

Entry points: ``kafka.KafkaBroker``, ``memory.MemoryBroker``, ``embedded.EmbeddedBroker``, ``topics.run_topics``.
Imports ``telemetry`` and ``errors``. Never here: the meaning of a record's bytes, runs, or PyTorch.
"""
