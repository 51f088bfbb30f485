"""What commands print for people: tables, the frames of ``driftline top``, the progress line.

Entry points: `tables.status_lines`, `records.lines_of`, `proof.report_lines`, `top.frame` and `progress.ProgressLine`.
Takes what ``observe`` and ``replay`` return; reads no Kafka and no settings.
"""
