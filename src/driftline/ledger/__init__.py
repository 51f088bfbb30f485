"""The fold that every role shares: chain, run state, clock rule, leases, following versions. Pure."""
