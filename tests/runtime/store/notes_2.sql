CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    words TEXT,
    colour TEXT
);
CREATE INDEX notes_by_colour ON notes (colour);
