"""The dialect "crow" (seed 002): half snake_case, half v1; updates tagged `@type`; questions as updates."""
