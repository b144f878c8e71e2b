-- Version 1. Columns hold what is searched for or checked; the rest is carried as JSON.
-- Text that never changes after acceptance lies in `facts`, so that the rows that change often stay small.

CREATE TABLE owners (
  id TEXT PRIMARY KEY,
  boot_id TEXT NOT NULL,
  pid INTEGER NOT NULL,
  start_ticks INTEGER NOT NULL,
  entered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE delegations (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,
  caller TEXT,
  call TEXT,
  owner TEXT NOT NULL REFERENCES owners (id),
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,        -- facts recorded so far
  unsettled INTEGER NOT NULL,  -- children that have not settled
  accepted_at INTEGER NOT NULL,
  settled_at INTEGER           -- null while a child has not settled
) STRICT;
CREATE UNIQUE INDEX delegations_by_call ON delegations (caller, call) WHERE caller IS NOT NULL;
CREATE INDEX delegations_open ON delegations (owner) WHERE settled_at IS NULL;

-- The acceptance is the fact with seq 0; a child's report is in the fact that its row names.
CREATE TABLE facts (
  delegation INTEGER NOT NULL REFERENCES delegations (no),
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  owner TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (delegation, seq)
) STRICT;

CREATE TABLE units (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  delegation INTEGER NOT NULL REFERENCES delegations (no),
  place INTEGER NOT NULL,      -- position in the delegation
  unsettled INTEGER NOT NULL,  -- children that have not settled
  state TEXT NOT NULL,         -- held, ready, claimed, parked, delivered or dismissed
  tries INTEGER NOT NULL,
  claim TEXT,                  -- while claimed
  parked TEXT,                 -- why, while parked
  ledger TEXT NOT NULL         -- one JSON line for each move, only ever appended to
) STRICT;
CREATE INDEX units_of ON units (delegation, place);
CREATE UNIQUE INDEX units_by_claim ON units (claim) WHERE claim IS NOT NULL;

CREATE TABLE children (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  delegation INTEGER NOT NULL REFERENCES delegations (no),
  task INTEGER NOT NULL,       -- position in the call
  unit INTEGER NOT NULL,       -- number of its row in units
  state TEXT NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  report INTEGER,              -- seq of the fact that carries it
  pulse TEXT,
  pulse_at INTEGER
) STRICT;
CREATE INDEX children_of ON children (delegation, task);

CREATE TABLE requests (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  settled_by TEXT,
  settled_at INTEGER
) STRICT;

CREATE TABLE process_groups (
  actor TEXT NOT NULL,
  kind TEXT NOT NULL,          -- child or session
  pgid INTEGER NOT NULL,
  start_ticks INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  PRIMARY KEY (actor, pgid, start_ticks, boot_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  name TEXT,
  kind TEXT NOT NULL,
  folder TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  messages INTEGER NOT NULL,   -- length of the history
  touched_at INTEGER NOT NULL
) STRICT;

CREATE TABLE messages (
  session INTEGER NOT NULL REFERENCES sessions (no),
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT;

-- The journal as a log: beginning and end of a step are two rows and no row is changed, so that the steps of hundreds of
-- agents are written side by side into the same few pages.
CREATE TABLE steps (
  actor INTEGER NOT NULL,      -- a child's number, or a session's number below zero
  seq INTEGER NOT NULL,
  phase INTEGER NOT NULL,      -- 0 intended, 1 done, 2 failed
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (actor, seq, phase)
) STRICT;
