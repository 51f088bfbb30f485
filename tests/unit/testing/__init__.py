"""Tests of what is public for tests."""
