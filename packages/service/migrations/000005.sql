-- The policy that was set over the API, besides what the configuration says: rows are only added, and the newest counts.
create table policies (
  version       integer primary key,
  document      text not null check (octet_length(document) <= 4000000),
  created_at    timestamptz not null default now(),
  created_by    text not null,
  created_for   text not null
);
