"""`dragoman chat`: the line editor, its commands, and updates that arrive while the user types."""
