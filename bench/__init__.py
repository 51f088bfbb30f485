"""Measurements, run with ``python -m bench``; results and conditions go to ``bench/latest.json``."""
