"""One worker of a run, for tasks and for scripts alike: topics, settings, membership, waiting for versions."""
