"""The dialect "2025.1" (docs/protocol/dialects.md#y2025): snake_case, client-chosen session ids, shell lines, plain
text.
"""
