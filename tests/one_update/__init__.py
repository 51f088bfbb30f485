"""The page docs/one-update.md, made from a run and from the way of a gradient through the code."""
