"""What happens in a simulated run: `simulate.simulate` plays one seed, event by event, from beginning to end."""
