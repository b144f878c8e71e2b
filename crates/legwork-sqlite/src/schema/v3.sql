-- Version 3: processes renew a lease, and one that did not for long enough is declared gone.

ALTER TABLE owners ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;  -- how often the lease was renewed
ALTER TABLE owners ADD COLUMN period_ms INTEGER;  -- for how long it is renewed; null for a process that never did
ALTER TABLE owners ADD COLUMN renewed_at INTEGER;
ALTER TABLE owners ADD COLUMN gone_at INTEGER;  -- nothing that it writes is taken from then on
