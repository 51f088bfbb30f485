"""What must hold of a simulated run: references written apart from the state machines, and comparisons with them.

`records.Promises` judges each record that is sent or lands, `readers.check_actor` each process after every event.
"""
