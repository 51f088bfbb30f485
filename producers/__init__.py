"""What a worker writes: proposals, deltas and the events that announce them. Pure: records out, nothing sent."""
