"""What is wrong with a Kafka for a run, and what its administrator must run. Looks, and changes nothing.

Entry points: `examine.examine` gathers the facts, `findings.findings` says what they mean, and
`administration.commands` says what an administrator runs. May import ``config`` and ``broker``. Nothing here knows
the command line, and nothing reads the records of a run.
"""
