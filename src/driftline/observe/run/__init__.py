"""Where a run stands: status, live members, who waits for whom, disk use."""
