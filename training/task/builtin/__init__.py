"""The tasks that come with driftline: small data sets that need no download, as a first run and as examples.

Entry points: one module a task, each with a subclass of `driftline.Task`; `training.task.loading.BUILT_IN` names them.
They import what a user's task would: `driftline.Task`, torch and numpy. Nothing of driftline depends on one.
"""
