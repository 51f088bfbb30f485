"""Everything that looks at a run and changes nothing."""
