"""A model as one flat float32 vector: layout, dtypes, tensors as bytes."""
