-- Times and durations are microseconds, documents are opaque bytes, texts compare byte by byte as they do in Go and SQLite.
-- What moves often and what may be large share a row: a large value lies apart by itself, and a move does not copy it.
--
-- For every question there is one index that fits, and no other that could be taken for it: the planner chooses while the
-- tables are empty, when all look alike.

-- +goose Up

CREATE TABLE meta (
  name  text COLLATE "C" PRIMARY KEY,
  value bytea
);

CREATE TABLE person (
  tenant    text COLLATE "C" NOT NULL,
  principal text COLLATE "C" NOT NULL,
  subject   text COLLATE "C" NOT NULL,
  name      text COLLATE "C" NOT NULL,
  created   bigint NOT NULL,
  PRIMARY KEY (tenant, principal)
);

CREATE TABLE sign_in (
  hash    bytea PRIMARY KEY,
  subject text COLLATE "C" NOT NULL,
  expires bigint NOT NULL
);
CREATE INDEX sign_in_expires ON sign_in (expires);

CREATE TABLE session (
  hash    bytea PRIMARY KEY,
  subject text COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  expires bigint NOT NULL
);
CREATE INDEX session_expires ON session (expires);

CREATE TABLE api_key (
  n       bigint GENERATED ALWAYS AS IDENTITY,
  tenant  text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  hash    bytea NOT NULL UNIQUE,
  subject text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  scopes  text COLLATE "C" NOT NULL, -- a JSON array
  created bigint NOT NULL,
  expires bigint NOT NULL,
  revoked bigint NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE workflow (
  tenant  text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  hash    bytea NOT NULL,
  doc     bytea,
  updated bigint NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE TABLE definition (
  hash bytea PRIMARY KEY,
  doc  bytea
);

CREATE TABLE run (
  n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant     text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  subject    text COLLATE "C" NOT NULL,
  workflow   text COLLATE "C" NOT NULL,
  definition bytea NOT NULL,
  request    bytea,
  status     text COLLATE "C" NOT NULL,
  last_seq   bigint NOT NULL,
  created    bigint NOT NULL,
  updated    bigint NOT NULL,
  UNIQUE (tenant, id)
) WITH (fillfactor = 70);
CREATE INDEX run_newest ON run (subject, created, n);

CREATE TABLE event (
  run  bigint NOT NULL, -- run.n
  seq  bigint NOT NULL,
  type text COLLATE "C" NOT NULL,
  doc  bytea,
  PRIMARY KEY (run, seq)
);

CREATE TABLE timer (
  tenant  text COLLATE "C" NOT NULL,
  run     text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  due     bigint NOT NULL,
  PRIMARY KEY (tenant, run, id)
);
CREATE INDEX timer_due ON timer (due, run, id);

CREATE TABLE step (
  n         bigint GENERATED ALWAYS AS IDENTITY, -- rises with creation, within a subject
  tenant    text COLLATE "C" NOT NULL,
  run       text COLLATE "C" NOT NULL,
  id        text COLLATE "C" NOT NULL,
  subject   text COLLATE "C" NOT NULL,
  kind      text COLLATE "C" NOT NULL,
  provider  text COLLATE "C" NOT NULL,
  model     text COLLATE "C" NOT NULL,
  tool      text COLLATE "C" NOT NULL,
  named     text COLLATE "C" NOT NULL,
  inputs    bytea,
  wait      bigint NOT NULL,
  timeout   bigint NOT NULL,
  created   bigint NOT NULL,
  state     text COLLATE "C" NOT NULL,
  runner    text COLLATE "C" NOT NULL,
  seq       bigint NOT NULL,
  use_prov  text COLLATE "C" NOT NULL,
  use_model text COLLATE "C" NOT NULL,
  plain     boolean NOT NULL,
  waited    bigint NOT NULL,
  since     bigint NOT NULL,
  due       bigint NOT NULL,
  output    bytea,
  outcome   text COLLATE "C" NOT NULL,
  code      text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, run, id)
);
CREATE INDEX step_past ON step (subject, runner, seq) WHERE runner <> '' AND state NOT IN ('offered', 'accepted');
-- The rest hold only steps that are alive: their size follows the work in hand, not the history.
CREATE INDEX step_hand ON step (subject, runner, seq) WHERE state IN ('offered', 'accepted');
CREATE INDEX step_queued ON step (subject, n) WHERE state = 'queued';
CREATE INDEX step_held ON step (runner) WHERE state = 'accepted';
CREATE INDEX step_due ON step (due, n) WHERE state IN ('queued', 'offered', 'accepted');

CREATE TABLE runner (
  n          bigint GENERATED ALWAYS AS IDENTITY,
  id         text COLLATE "C" PRIMARY KEY,
  tenant     text COLLATE "C" NOT NULL,
  subject    text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  platform   text COLLATE "C" NOT NULL,
  version    text COLLATE "C" NOT NULL,
  created    bigint NOT NULL,
  generation bigint NOT NULL,
  used       bigint NOT NULL,
  revoked    bigint NOT NULL,
  cursor     bigint NOT NULL,
  epoch      bigint NOT NULL,
  journal    text COLLATE "C" NOT NULL,
  reports    boolean NOT NULL,
  record     bytea,
  inventory  bytea,
  state      text COLLATE "C" NOT NULL,
  max_steps  bigint NOT NULL,
  last_seen  bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX runner_subject ON runner (tenant, subject, created, n);

CREATE TABLE pairing (
  device    bytea PRIMARY KEY,
  user_code text COLLATE "C" NOT NULL UNIQUE,
  name      text COLLATE "C" NOT NULL,
  platform  text COLLATE "C" NOT NULL,
  version   text COLLATE "C" NOT NULL,
  state     text COLLATE "C" NOT NULL,
  subject   text COLLATE "C" NOT NULL,
  runner    text COLLATE "C" NOT NULL,
  issued    bigint NOT NULL,
  expires   bigint NOT NULL
);
CREATE INDEX pairing_expires ON pairing (expires);

CREATE TABLE revocation (
  seq    bigint PRIMARY KEY, -- rises with the commits
  runner text COLLATE "C" NOT NULL
);

CREATE TABLE ask (
  n        bigint GENERATED ALWAYS AS IDENTITY,
  subject  text COLLATE "C" NOT NULL,
  id       text COLLATE "C" NOT NULL,
  tenant   text COLLATE "C" NOT NULL,
  runner   text COLLATE "C" NOT NULL,
  run      text COLLATE "C" NOT NULL,
  step     text COLLATE "C" NOT NULL,
  seq      bigint NOT NULL,
  doc      bytea,
  expires  bigint NOT NULL,
  created  bigint NOT NULL,
  answer   text COLLATE "C" NOT NULL,
  answered bigint NOT NULL,
  PRIMARY KEY (subject, id)
);
CREATE INDEX ask_runner ON ask (runner, subject, n);
CREATE INDEX ask_run ON ask (tenant, run, step);

CREATE TABLE late (
  n      bigint GENERATED ALWAYS AS IDENTITY,
  runner text COLLATE "C" NOT NULL,
  seq    bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  run    text COLLATE "C" NOT NULL,
  step   text COLLATE "C" NOT NULL,
  output bytea,
  at     bigint NOT NULL,
  PRIMARY KEY (runner, seq)
);
CREATE INDEX late_run ON late (tenant, run, n);
CREATE INDEX late_at ON late (at);

CREATE TABLE audit_head (
  n       bigint GENERATED ALWAYS AS IDENTITY,
  subject text COLLATE "C" PRIMARY KEY,
  last    bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE audit (
  subject    bigint NOT NULL, -- audit_head.n
  seq        bigint NOT NULL,
  at         bigint NOT NULL,
  kind       text COLLATE "C" NOT NULL,
  run        text COLLATE "C" NOT NULL,
  step       text COLLATE "C" NOT NULL,
  runner     text COLLATE "C" NOT NULL,
  runner_seq bigint NOT NULL,
  detail     text COLLATE "C" NOT NULL,
  PRIMARY KEY (subject, seq)
);

CREATE TABLE idempotent (
  tenant    text COLLATE "C" NOT NULL,
  operation text COLLATE "C" NOT NULL,
  key       text COLLATE "C" NOT NULL,
  digest    bytea NOT NULL,
  status    bigint NOT NULL,
  body      bytea,
  at        bigint NOT NULL,
  PRIMARY KEY (tenant, operation, key)
);
CREATE INDEX idempotent_at ON idempotent (at);

-- What is moved all the time is cleaned up before a fifth of it is dead.
ALTER TABLE run SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE step SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE timer SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE runner SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE audit_head SET (autovacuum_vacuum_scale_factor = 0.02);
