"""What one simulated run is made of: its scenario, the problem that it trains, its processes, its log."""
