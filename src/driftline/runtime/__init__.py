"""Drives any state machine on a broker: one loop, inbox, outbox, errands."""
