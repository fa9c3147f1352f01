"""The actions of `dragoman agents` that have options of their own."""
