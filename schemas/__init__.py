"""What is on the wire, and what a record means without any log around it. Pure: no input or output happens here.

- `records`: every record as a frozen dataclass; `codec`: their bytes, bound to ``avsc/``; `digests`: SHA-256 over them.
- `model`: a model as one flat float32 vector, cut into shards; `run`: the frozen settings of a run.
- `effects`: what goes into a state machine and what comes out of it.

Entry points: `codec.encode`, `codec.decode`, `digests`. May import `broker.port` and `broker.topics` for the names of
streams, and `errors`. Never belongs here: decisions, folds of several records, torch.
"""
