"""Downloads: bounded, resumable, over https only, compared with a hash."""
