"""Programs of other frameworks at the door: docs/door.md."""
