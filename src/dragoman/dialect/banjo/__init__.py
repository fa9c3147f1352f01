"""The dialect "banjo" (docs/protocol/dialects.md#banjo): v1 with a table of differences; v1 reads its additions too."""
