"""Settings: declared once, given by options, environment, file or Python, read and checked together.

Entry points: `settings.Settings` (what one command or one call was given), `connection.Connection` (which Kafka to
use) and `adopting` (what a member takes over from a run that exists). How a setting is declared stands in
`driftline.schemas.run.setting`; the declarations stand there (what a run freezes), in `run_settings` and in `sections`.

May import ``rules``, ``schemas``, ``broker`` and what is below. What a setting is used for never belongs here: no
training, no processes, no command line.
"""
