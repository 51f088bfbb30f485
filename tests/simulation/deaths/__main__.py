"""``python -m tests.simulation.deaths``: let processes die at every point, and print the counts."""

import sys

from tests.simulation.deaths.dying import reach
from tests.simulation.deaths.fault_points import FaultPoint


def main() -> int:
    """Print the counts of every point; return the exit code."""
    reached = [reach(point) for point in FaultPoint]
    sys.stdout.write("".join(f"{one}\n" for one in reached))
    return 0 if all(one.is_enough() for one in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
