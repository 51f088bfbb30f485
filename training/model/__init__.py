"""Between a torch model and one flat float32 vector: layout, gradients, buffers, and the rule of its optimizer."""
