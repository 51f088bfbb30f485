"""``python -m driftline``: the same as the command ``driftline``."""

from driftline.cli import main

if __name__ == "__main__":
    main(prog_name="driftline")
