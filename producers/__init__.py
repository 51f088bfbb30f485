"""A worker's half of the protocol. Pure: inputs in, effects out, no torch.

Entry points: `session.WorkerSession`, a worker as a state machine (propose, join, follow, contribute, leave), on
`member.Member`, which any member of a run is; `deltas.DeltaEncoder`, a gradient as records; `proposal.Offer`, what a
worker would start a run with; `clocks`, what it has spent and waits for.

May import ``ledger``, ``rules``, ``schemas`` and what is below. Never here: computing a gradient, Kafka clients.
"""
