"""Where the time of one update goes: measured, drawn, and written into the page about it."""
