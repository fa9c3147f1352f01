"""The programs that install packages: node with npm, uv, Python; found on this machine, or brought as wheels."""
