-- Keys that the API lets in: of each the identity that it stands for, and what tells whether it is the one, which is the
-- SHA-256 of a key that is sent, or the public half of one that signs. What can be shown is shown once and never kept.
-- A key that was rotated is named by `replaces` in its successor and ends soon after.
create table api_keys (
  id            text collate "C" primary key,
  tenant        text not null,
  principal     text not null,
  name          text not null,
  permissions   text not null,
  roles         text not null,
  tools         text,
  digest        text,
  public_key    text,
  replaces      text collate "C",
  created_at    timestamptz not null default now(),
  created_by    text not null,
  expires_at    timestamptz not null,
  revoked_at    timestamptz,
  last_used_at  timestamptz,
  check ((digest is null) <> (public_key is null))
);
create index api_keys_listed on api_keys (tenant, created_at desc, id desc);
create unique index api_keys_pairs on api_keys (replaces) where replaces is not null and revoked_at is null;

-- What signed requests used once, for longer than such a request is good for.
create table nonces (
  key_id        text collate "C" not null,
  nonce         text collate "C" not null,
  used_at       timestamptz not null default now(),
  primary key (key_id, nonce)
);
create index nonces_used on nonces (used_at);
