"""What tests of several rooms stand on: runs to look at, cores on a stage, records, commands. Holds no test."""
