"""``driftline train`` and ``chaos``: a whole run as processes of this machine, with logs, exits and faults on purpose.

`launcher` starts and watches the processes of a `plan` and evaluates the run in this process; `chaos` carries out a
script of `faults` on these processes and on the broker's `nodes`. Beside them: `processes` (children and their logs),
`exits` (reports to the run that a worker's process has ended) and `disk_watch`.

It may import every room but the command line. Code that only reads a run belongs into `observe`; code that works
without processes belongs into `runs`; what a worker or a server does belongs into their own rooms.
"""
