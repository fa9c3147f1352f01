"""A host as the commands see it: its JSON API, its sessions as a store, whether it is up."""
