"""`driftline.Optimizer` and `driftline.Sampler`: a user's own script as a worker of a run.

Entry points: `optimizer.ScriptOptimizer`, which looks like the torch optimizer that it wraps, and `sampler.Sampler`.
`steps` moves the model from version to version, `gradient` makes one step's contribution, `offer` what the script would
start a run with, `drawing` keeps account of the samples that were read.

May import ``training.model``, ``training.worker``, ``config`` and below. Never here: tasks and their loops.
"""
