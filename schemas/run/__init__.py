"""The frozen settings of a run, as `RunStart` records them."""
