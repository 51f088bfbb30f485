"""Runs as things that people create, stop, list, name and delete. Nothing here trains.

`commands` creates, stops and deletes a run; `catalogue` lists runs and finds out who works on one; `naming` gives names
to runs and members and reads a run's address; `requests` holds the state machines that ask a coordinator for something
and read its answer in the ledger.

It may import `observe`, `consumers`, `producers` and everything below them. Code that reads a run and changes nothing
belongs into `observe`, code about processes on this machine into `launch`.
"""
