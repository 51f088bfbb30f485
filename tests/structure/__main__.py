"""``python -m tests.structure``: draw the rooms, into ``docs/rooms.svg``."""

from tests.structure.drawing import DRAWING, drawn

if __name__ == "__main__":
    DRAWING.write_text(drawn(), encoding="utf-8")
