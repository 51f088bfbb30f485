"""Problems of a Kafka for a run, and the commands that its administrator must run. Reads, and changes nothing.

`examine` gathers facts, `findings` rates them, and `rights.commands` lists what an administrator runs. Nothing here
reads the records of a run.
"""
