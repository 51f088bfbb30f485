"""Records of a run: their classes, bytes, digests and tensor layouts. No input or output happens here."""
