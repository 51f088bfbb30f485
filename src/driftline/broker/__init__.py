"""The seam to Kafka, a broker in memory behind it, and an embedded Kafka."""
