"""What tests of driftline, and of programs that use it, stand on."""
