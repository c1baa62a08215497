"""Other projects' agents on other projects' servers: the real ones, each in a process of its own."""
