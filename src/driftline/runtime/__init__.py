"""Drives any state machine on a broker: records in, effects out, on one loop.

Entry points: `shell.Shell`, the loop of a server; `running.Running`, the same on a thread beside a computing one, for
workers and evaluators; `outcome.check_finish`, what the end of a machine means for the command that ran it.

Inputs come from the threads of `pump` through one bounded queue; sends, look-ups of ends and deletions go out. May
import ``schemas``, ``broker`` and what is below. Never here: what a record means, or a decision about a run.
"""
