"""Tests of tasks, and of the processes that train and measure them."""
