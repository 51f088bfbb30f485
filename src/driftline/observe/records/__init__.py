"""Single records, versions and differences of versions, decoded for people."""
