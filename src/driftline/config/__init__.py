"""What a command line asks for, checked: where Kafka is, what a run should be, what things may be called."""
