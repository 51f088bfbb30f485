"""What commands print for people: tables, the frames of ``driftline top``.

Entry points: `tables.status_lines`, `records.lines_of`, `proof.report_lines` and `top.frame`.
Takes what ``observe`` and ``replay`` return; reads no Kafka and no settings.
"""
