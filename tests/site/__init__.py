"""What makes the site of docs/ and its pictures: hooks of MkDocs, the drawings, the recording of a run."""
