"""The requirements, one table a file; every module here has CHAPTER."""
