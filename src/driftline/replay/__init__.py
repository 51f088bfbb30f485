"""Runs computed again from their log. Reads only."""
