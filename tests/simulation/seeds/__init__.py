"""Many seeds: cut into blocks, run in several processes, counted, and kept where a range was interrupted."""
