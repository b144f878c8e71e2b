-- Version 2: a session is open in one process at a time, results wait for their session in the order in which they became
-- ready, and a steer is seen or missed.

ALTER TABLE sessions ADD COLUMN holder TEXT REFERENCES owners (id);  -- the process that has it open
ALTER TABLE sessions ADD COLUMN opening TEXT;  -- the beginning of what a user said first, on one line

-- A text that is not JSON is left to whoever reads it: it must not keep the rest from being read.
UPDATE sessions SET opening = (
  SELECT rtrim(substr(trim(
    replace(replace(replace(
      replace(replace(replace(part.value ->> '$.text', char(9), ' '), char(10), ' '), char(13), ' '),
      ' ', char(1, 2)), char(2, 1), ''), char(1, 2), ' ')), 1, 120))
  FROM messages, json_each(iif(json_valid(body), body, '{}'), '$.parts') AS part
  WHERE session = sessions.no AND iif(json_valid(body), body, '{}') ->> '$.author' = 'user'
    AND part.value ->> '$.type' = 'text'
    AND trim(part.value ->> '$.text', char(9, 10, 13, 32)) <> ''
  ORDER BY seq, part.key LIMIT 1
);

-- Of several sessions with one name in one folder the newest keeps it.
UPDATE sessions SET name = name || ' (' || id || ')' WHERE EXISTS (
  SELECT 1 FROM sessions AS newer
  WHERE newer.folder = sessions.folder AND newer.name = sessions.name AND newer.no > sessions.no
);
CREATE UNIQUE INDEX sessions_by_name ON sessions (folder, name) WHERE name IS NOT NULL;

ALTER TABLE delegations ADD COLUMN reach TEXT;
UPDATE delegations SET reach = (
  SELECT iif(json_valid(body), body, '{}') -> '$.accepted.reach'
  FROM facts WHERE delegation = delegations.no AND seq = 0
);
CREATE INDEX delegations_by_session ON delegations (session);

-- Both are null while a unit is held and once it is delivered or dismissed.
ALTER TABLE units ADD COLUMN due_to TEXT;  -- the session that the results are for
ALTER TABLE units ADD COLUMN due_no INTEGER;  -- the place among what is due to that session
UPDATE units SET due_to = (SELECT session FROM delegations WHERE no = delegation), due_no = no
  WHERE state IN ('ready', 'claimed', 'parked');
CREATE INDEX units_due ON units (due_to, due_no) WHERE due_to IS NOT NULL;

ALTER TABLE requests ADD COLUMN child TEXT;  -- whom a steer is for
ALTER TABLE requests ADD COLUMN fate TEXT;  -- null while nobody has taken it, which settled_at tells too
UPDATE requests SET fate = '"carried_out"' WHERE settled_at IS NOT NULL;
CREATE INDEX requests_open ON requests (no) WHERE settled_at IS NULL;
CREATE INDEX requests_of_child ON requests (child) WHERE child IS NOT NULL;

-- A row stands for a switch that is on.
CREATE TABLE switches (
  name TEXT PRIMARY KEY,
  since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
