"""Measurements, run with ``python -m bench``; figures and conditions go to ``bench/latest.json``."""
