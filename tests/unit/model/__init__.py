"""Tests of models as vectors."""
