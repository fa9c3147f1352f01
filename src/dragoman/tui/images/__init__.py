"""Pictures in the terminal: what it can show, pictures as its protocols want them, PNG and sixel."""
