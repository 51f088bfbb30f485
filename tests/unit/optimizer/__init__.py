"""Tests of `driftline.Optimizer` and `driftline.Sampler`."""
