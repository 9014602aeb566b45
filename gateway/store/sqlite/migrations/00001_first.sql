-- Times and durations are microseconds, documents are opaque bytes, an empty string or document that an index leaves out is
-- NULL. Rows that move often are kept apart from what never changes and may be large: a move then writes one small row.

-- +goose Up

-- The store's clock, as of some commit of the last second.
CREATE TABLE clock (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  at  INTEGER NOT NULL
) STRICT;

CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE person (
  tenant    TEXT NOT NULL,
  principal TEXT NOT NULL,
  subject   TEXT NOT NULL,
  name      TEXT NOT NULL,
  created   INTEGER NOT NULL,
  PRIMARY KEY (tenant, principal)
) STRICT, WITHOUT ROWID;

CREATE TABLE sign_in (
  hash    BLOB NOT NULL PRIMARY KEY,
  subject TEXT NOT NULL,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_expires ON sign_in (expires);

CREATE TABLE session (
  hash    BLOB NOT NULL PRIMARY KEY,
  subject TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_expires ON session (expires);

CREATE TABLE api_key (
  n       INTEGER PRIMARY KEY,
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  hash    BLOB NOT NULL UNIQUE,
  subject TEXT NOT NULL,
  name    TEXT NOT NULL,
  scopes  TEXT NOT NULL, -- a JSON array
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  revoked INTEGER NOT NULL,
  UNIQUE (tenant, id)
) STRICT;
CREATE INDEX api_key_created ON api_key (tenant, created);

CREATE TABLE workflow (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  hash    BLOB NOT NULL,
  doc     BLOB,
  updated INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT;

CREATE TABLE definition (
  hash BLOB NOT NULL PRIMARY KEY,
  doc  BLOB
) STRICT;

CREATE TABLE run (
  n          INTEGER PRIMARY KEY,
  tenant     TEXT NOT NULL,
  id         TEXT NOT NULL,
  subject    TEXT NOT NULL,
  workflow   TEXT NOT NULL,
  definition BLOB NOT NULL,
  status     TEXT NOT NULL,
  last_seq   INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL,
  UNIQUE (tenant, id)
) STRICT;
CREATE INDEX run_newest ON run (tenant, subject, created);

CREATE TABLE run_request (
  n       INTEGER PRIMARY KEY, -- of run
  request BLOB
) STRICT;

-- k is run.n * 2^24 + seq: a run's log lies together, in order, without an index beside it.
CREATE TABLE event (
  k    INTEGER PRIMARY KEY,
  type TEXT NOT NULL,
  doc  BLOB
) STRICT;

CREATE TABLE timer (
  run INTEGER NOT NULL, -- run.n
  id  TEXT NOT NULL,
  due INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_due ON timer (due);

CREATE TABLE step (
  n        INTEGER PRIMARY KEY, -- rises with creation
  run      INTEGER NOT NULL,    -- run.n
  id       TEXT NOT NULL,
  kind     TEXT NOT NULL,
  provider TEXT NOT NULL,
  model    TEXT NOT NULL,
  tool     TEXT NOT NULL,
  named    TEXT NOT NULL,
  inputs   BLOB,
  wait     INTEGER NOT NULL,
  timeout  INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  UNIQUE (run, id)
) STRICT;

CREATE TABLE step_now (
  n         INTEGER PRIMARY KEY, -- of step
  subject   TEXT NOT NULL,
  state     TEXT NOT NULL,
  runner    TEXT,
  seq       INTEGER NOT NULL,
  use_prov  TEXT NOT NULL,
  use_model TEXT NOT NULL,
  plain     INTEGER NOT NULL,
  waited    INTEGER NOT NULL,
  since     INTEGER NOT NULL,
  due       INTEGER NOT NULL,
  output    BLOB,
  outcome   TEXT NOT NULL,
  code      TEXT NOT NULL
) STRICT;
CREATE INDEX step_runner ON step_now (subject, runner, state, seq) WHERE runner IS NOT NULL;
-- The rest hold only steps that are alive: their size follows the work in hand, not the history.
CREATE INDEX step_queued ON step_now (subject, n) WHERE state = 'queued';
CREATE INDEX step_held ON step_now (runner) WHERE state = 'accepted';
CREATE INDEX step_due ON step_now (due) WHERE state IN ('queued', 'offered', 'accepted');

CREATE TABLE runner (
  n          INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  tenant     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  name       TEXT NOT NULL,
  platform   TEXT NOT NULL,
  version    TEXT NOT NULL,
  created    INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  used       INTEGER NOT NULL,
  revoked    INTEGER NOT NULL,
  cursor     INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  journal    TEXT NOT NULL,
  reports    INTEGER NOT NULL,
  state      TEXT NOT NULL,
  max_steps  INTEGER NOT NULL,
  last_seen  INTEGER NOT NULL
) STRICT;
CREATE INDEX runner_subject ON runner (tenant, subject, created);

CREATE TABLE runner_doc (
  n         INTEGER PRIMARY KEY, -- of runner
  record    BLOB,
  inventory BLOB
) STRICT;

CREATE TABLE pairing (
  device    BLOB NOT NULL PRIMARY KEY,
  user_code TEXT NOT NULL UNIQUE,
  name      TEXT NOT NULL,
  platform  TEXT NOT NULL,
  version   TEXT NOT NULL,
  state     TEXT NOT NULL,
  subject   TEXT NOT NULL,
  runner    TEXT NOT NULL,
  issued    INTEGER NOT NULL,
  expires   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pairing_expires ON pairing (expires);

CREATE TABLE revocation (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
  runner TEXT NOT NULL
) STRICT;

CREATE TABLE ask (
  n        INTEGER PRIMARY KEY,
  subject  TEXT NOT NULL,
  id       TEXT NOT NULL,
  tenant   TEXT NOT NULL,
  runner   TEXT NOT NULL,
  run      TEXT NOT NULL,
  step     TEXT NOT NULL,
  seq      INTEGER NOT NULL,
  doc      BLOB,
  expires  INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  answer   TEXT NOT NULL,
  answered INTEGER NOT NULL,
  UNIQUE (subject, id)
) STRICT;
CREATE INDEX ask_runner ON ask (subject, runner);
CREATE INDEX ask_run ON ask (tenant, run, step);

CREATE TABLE late (
  n      INTEGER PRIMARY KEY,
  runner TEXT NOT NULL,
  seq    INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  run    TEXT NOT NULL,
  step   TEXT NOT NULL,
  output BLOB,
  at     INTEGER NOT NULL,
  UNIQUE (runner, seq)
) STRICT;
CREATE INDEX late_run ON late (tenant, run);
CREATE INDEX late_at ON late (at);

CREATE TABLE audit_head (
  n       INTEGER PRIMARY KEY,
  subject TEXT NOT NULL UNIQUE,
  last    INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
  subject    INTEGER NOT NULL, -- audit_head.n
  seq        INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  kind       TEXT NOT NULL,
  run        TEXT NOT NULL,
  step       TEXT NOT NULL,
  runner     TEXT NOT NULL,
  runner_seq INTEGER NOT NULL,
  detail     TEXT NOT NULL,
  PRIMARY KEY (subject, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotent (
  n         INTEGER PRIMARY KEY,
  tenant    TEXT NOT NULL,
  operation TEXT NOT NULL,
  key       TEXT NOT NULL,
  digest    BLOB NOT NULL,
  status    INTEGER NOT NULL,
  body      BLOB,
  at        INTEGER NOT NULL,
  UNIQUE (tenant, operation, key)
) STRICT;
CREATE INDEX idempotent_at ON idempotent (at);
