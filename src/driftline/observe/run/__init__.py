"""Where a run stands: the fold of its ledger and the newest events of its members, as objects that JSON can hold.

`status.build_status` and `top_view.build_top_view` are pure; `summary`, `recent_events` and `watch` read a broker for
them. `waiting` explains which worker waits for which, `disk_use` and `progress` serve `driftline train`.
"""
