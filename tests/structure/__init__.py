"""The house as its code stands: rooms, the imports between them, and the drawing of both in the docs."""
