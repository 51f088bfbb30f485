"""Tasks, data, the worker and evaluator sessions, and what starts them. torch is imported only here."""
