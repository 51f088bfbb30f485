"""`driftline.Optimizer` and `driftline.Sampler`: a script of the user as a worker of a run."""
