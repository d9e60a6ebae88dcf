-- Texts that a tenant keeps to find them again. Whoever changes any of them holds the tenant's row of `knowledge_use`,
-- which says how much there is.
create table knowledge (
  tenant        text collate "C" not null,
  id            text collate "C" not null check (octet_length(id) < 1000),
  digest        text not null,
  title         text,
  source        text,
  tags          text[] not null,
  metadata      text,
  chunks        integer not null,
  bytes         bigint not null,
  added_at      timestamptz not null default now(),
  primary key (tenant, id)
);
create index knowledge_source on knowledge (tenant, md5(source)) where source is not null;

-- The pieces of a text: joined by their positions they are the text. `words` holds each word stemmed as in English, and
-- as it is, and the mark of the tenant; `vector` the meaning as the embedder of this name sees it, in numbers of four bytes.
create table knowledge_chunks (
  tenant        text collate "C" not null,
  id            text collate "C" not null,
  position      integer not null,
  start         integer not null,
  text          text not null,
  words         tsvector not null,
  embedder      text,
  vector        bytea,
  primary key (tenant, id, position)
);
create index knowledge_words on knowledge_chunks using gin (words);

create table knowledge_use (
  tenant        text collate "C" primary key,
  documents     bigint not null default 0,
  chunks        bigint not null default 0,
  bytes         bigint not null default 0
);

-- A word that stands for a tenant among the words of its pieces, so that their index finds those of one tenant without
-- those of others. No text has such a word: none begins with this sign.
create function tenant_word(tenant text) returns text language sql immutable as $$ select '=' || md5(tenant) $$;

-- What is looked for, in the pieces of a tenant.
create function of_tenant(tenant text, wanted tsquery) returns tsquery language sql immutable
as $$ select quote_literal(tenant_word(tenant))::tsquery && wanted $$;
