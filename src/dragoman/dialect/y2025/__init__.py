"""The dialect "2025.1" (seed 000): snake_case, session ids that clients choose, shell lines, plain texts."""
