-- The pieces of a long text come in slices, so that adding it keeps nobody waiting, under a name of their own. The row of
-- the document takes them up, by that name, when all of them are there; without a name they are under the document's id.
alter table knowledge add column pieces text collate "C";
create unique index knowledge_pieces on knowledge (tenant, (coalesce(pieces, id)));

-- Pieces that no document has taken up yet. What one who died has left is removed by others who add.
create table knowledge_drafts (
  tenant        text collate "C" not null,
  id            text collate "C" not null,
  pieces        text[] not null,
  touched_at    timestamptz not null default now(),
  primary key (tenant, id)
);
create index knowledge_drafts_touched on knowledge_drafts (touched_at);
