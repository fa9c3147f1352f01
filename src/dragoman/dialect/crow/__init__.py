"""The dialect "crow" (docs/protocol/dialects.md#crow): partly snake_case; updates tagged `@type`, also for permission
requests.
"""
