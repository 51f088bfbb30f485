"""What a server is: the ledger's fold, the coordinator, the shards and their update rules; and what followers read."""
