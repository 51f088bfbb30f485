"""Everything that touches torch: users' scripts, tasks, and models as vectors.

`optimizer` is for scripts with their own loop, `task` for classes that `driftline train` trains. Both are workers by
`worker`, and `model` is between torch tensors and the flat vector of the run.

May import ``config``, ``producers``, ``runtime``, ``ledger``, ``rules``, ``schemas`` and what is below. Never here: the
protocol of a worker, or the arithmetic of an update: servers apply the rule, without torch.
"""
