"""Install an agent: resolve, tell, fetch, try, then one rename."""
