CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    words TEXT
);
