"""A model as one flat float32 vector: layout (which tensor lies where), shards, dtypes, tensors as bytes.

Entry points: `layout.Layout`, `tensors`. May import `schemas` only. Never belongs here: torch; `training.model` turns
torch modules into these.
"""
