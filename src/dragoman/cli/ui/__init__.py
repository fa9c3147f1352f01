"""What commands print and ask: styles, Markdown, diffs, permission prompts, forms."""
