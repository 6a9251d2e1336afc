CREATE TABLE users (id INTEGER, name TEXT);
INSERT INTO users VALUES (1, 'x');
