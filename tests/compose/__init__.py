"""docker-compose.yml on a real engine: what `make compose-test` runs."""
