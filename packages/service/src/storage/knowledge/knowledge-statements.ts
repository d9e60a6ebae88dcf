/** Creates the row that the next statement locks. */
export const ensureUseSql = 'insert into knowledge_use (tenant) values ($1) on conflict (tenant) do nothing'
export const useSql = 'select documents, bytes from knowledge_use where tenant = $1'
export const lockUseSql = `${useSql} for update`
export const changeUseSql = `
  update knowledge_use set documents = documents + $2, chunks = chunks + $3, bytes = bytes + $4 where tenant = $1`

export const presentSql = 'select id, digest, chunks, bytes from knowledge where tenant = $1 and id = any($2::text[])'

export const deleteSql = `
  with gone as (
    delete from knowledge where tenant = $1 and id = any($2::text[]) returning id, chunks, bytes, pieces
  ), pieces as (
    delete from knowledge_chunks where tenant = $1 and id = any(array(select coalesce(pieces, id) from gone))
  )
  select id, chunks, bytes from gone`

export const fromSourceSql = `
  select id from knowledge where tenant = $1 and source is not null and md5(source) = md5($2) and source = $2`

export const insertSql = `
  insert into knowledge (tenant, id, digest, title, source, tags, metadata, chunks, bytes, pieces)
  select $1, id, digest, title, source, array(select json_array_elements_text(tags)), metadata, chunks, bytes, pieces
  from json_to_recordset($2::json) as d(id text, digest text, title text, source text, tags json, metadata text,
    chunks integer, bytes bigint, pieces text)`

/** Titles have more weight than text. Words are indexed stemmed and unstemmed, with positions. */
export const insertChunksSql = `
  insert into knowledge_chunks (tenant, id, position, start, text, words, embedder, vector)
  select $1, id, position, start, text,
    setweight(to_tsvector('english', coalesce(title, '')), 'A') || setweight(to_tsvector('english', tags), 'B')
      || to_tsvector('english', text) || to_tsvector('simple', plain) || array_to_tsvector(array[tenant_word($1)]),
    embedder, decode(vector, 'base64')
  from json_to_recordset($2::json) as c(id text, position integer, start integer, text text, title text, tags text,
    plain text, embedder text, vector text)`

/** A draft, for chunks that belong to no document yet; they are added only while it exists. */
export const beginDraftSql = 'insert into knowledge_drafts (tenant, id, pieces) values ($1, $2, $3::text[])'
export const addToDraftSql = `
  with alive as (update knowledge_drafts set touched_at = now() where tenant = $1 and id = $3 returning id)
  ${insertChunksSql} where exists (select from alive) returning position`
export const takeUpDraftSql = 'delete from knowledge_drafts where tenant = $1 and id = $2 returning id'
export const deletePiecesSql = 'delete from knowledge_chunks where tenant = $1 and id = any($2::text[])'
export const dropDraftSql = `
  with gone as (delete from knowledge_drafts where tenant = $1 and id = $2 returning pieces)
  delete from knowledge_chunks where tenant = $1 and id = any(array(select unnest(pieces) from gone))`

/** Removes one draft without an addition for this many seconds, with its chunks. */
export const staleDraftSql = `
  with stale as (
    select tenant, id from knowledge_drafts where touched_at <= now() - make_interval(secs => $1)
    order by touched_at limit 1 for update skip locked
  )
  delete from knowledge_drafts d using stale where d.tenant = stale.tenant and d.id = stale.id
  returning d.tenant, d.pieces`

/**
 * Pieces of the tenant that hold something, found by the index of words whatever the planner knows of the tables: the
 * index of tenants, which it would often take instead, does not serve this comparison.
 */
const own = (term: string): string => `c.words @@ of_tenant($1, ${term}) and c.tenant is not distinct from $1`

/** The number of the tenant's chunks that match $2, counted up to $3. */
export const countSql = `
  select count(*) as pieces from (
    select from knowledge_chunks c where ${own('$2::text::tsquery')} limit $3
  ) holding`

/**
 * What to look for, for each word of a query, and in how many pieces of the tenant it is, counted no further than $4,
 * and not at all for a tenant of more than $5: there each takes long. Words ($2) are compared stemmed and, as the
 * library reads them ($3), as they are; those that English does without count only when there are no others. Nothing in
 * them is read as a query: each is only a text.
 */
export const termsSql = `
  with asked as (
    select n, plainto_tsquery('english', word) as stemmed, plainto_tsquery('simple', plain) as plain
    from unnest($2::text[], $3::text[]) with ordinality as a(word, plain, n)
  ), terms as (
    select n, stemmed || plain as term from asked where numnode(stemmed) > 0
    union all
    select n, plain from asked where numnode(plain) > 0 and not exists (select from asked where numnode(stemmed) > 0)
  ), kept as (
    select coalesce((select chunks from knowledge_use where tenant = $1), 0) as total
  )
  select term::text as term, total, case when total <= $5 then (
      select count(*) from (select from knowledge_chunks c where ${own('term')} limit $4) holding
    ) end as pieces
  from terms, kept order by n`

const vector = (model: string): string =>
  `case when c.embedder = ${model}::text then encode(c.vector, 'base64') end as vector`
/**
 * The document that a piece is of; none has taken up those of a draft. Written so that the planner cannot begin with
 * the documents, and look for pieces anew for each.
 */
const document = `lateral (
      select d.id, d.tags, d.source from knowledge d where d.tenant = $1 and coalesce(d.pieces, d.id) = c.id limit 1
    ) d`
/** Required phrases ($2), excluded phrases ($3), tags ($4) and source ($5). */
const fits = `(cardinality($4::text[]) = 0 or d.tags @> $4::text[]) and ($5::text is null or d.source = $5::text)
    and not exists (select from unnest($2::text[]) as phrase where not c.words @@ phraseto_tsquery('simple', phrase))
    and not exists (select from unnest($3::text[]) as phrase where c.words @@ phraseto_tsquery('simple', phrase))`

/**
 * The pieces of a tenant that fit what is looked for ($9), the best first, at most so many ($7): by each of the terms
 * ($10), as much as it weighs ($11). However many there are, no more than $8 that hold it and the words of all phrases
 * ($12) are looked at, and no more than $13 weighed. It is done with the rights of the service, because row-level
 * security would keep the index of words from being used, and returns no text of a piece.
 */
export const rankSql = `
  select c.document as id, c.position, (
      select sum(case when c.words @@ term then weight * ts_rank('{0.4, 0.4, 0.6, 1}', c.words, term, 1) else 0 end)
      from unnest($10::text[]::tsquery[], $11::float8[]) as w(term, weight)
    )::float8 as words, ${vector('$6')}
  from (
    select d.id as document, c.position, c.words, c.embedder, c.vector
    from (
      select c.id, c.position, c.words, c.embedder, c.vector from knowledge_chunks c
      where ${own("$9::text::tsquery && plainto_tsquery('simple', $12)")} limit $8
    ) c cross join ${document}
    where ${fits} limit $13
  ) c
  order by words desc, c.document, c.position limit $7`

/** Chunks with a vector of an embedder ($6), whatever their words; at most $8 are examined. */
export const meaningSql = `
  select d.id, c.position, 0::float8 as words, ${vector('$6')}
  from (
    select c.id, c.position, c.words, c.embedder, c.vector from knowledge_chunks c
    where c.tenant = $1 order by c.id, c.position limit $8
  ) c cross join ${document}
  where c.embedder = $6::text and ${fits}
  order by d.id, c.position limit $7`

const info = 'd.id, d.title, d.source, d.tags'

export const hitsSql = `
  select ${info}, c.position, c.start, c.text
  from json_to_recordset($2::json) as wanted(id text, position integer)
    cross join lateral (select * from knowledge d where d.tenant = $1 and d.id = wanted.id limit 1) d
    cross join lateral (
      select c.position, c.start, c.text from knowledge_chunks c
      where c.tenant = $1 and c.id = coalesce(d.pieces, d.id) and c.position = wanted.position limit 1
    ) c`

export const getSql = `
  select ${info}, d.metadata, d.chunks, d.bytes, d.added_at, coalesce((
    select string_agg(c.text, '' order by c.position) from knowledge_chunks c
    where c.tenant = $1 and c.id = coalesce(d.pieces, d.id) and c.position >= $3 and c.position < $3 + $4), '') as text
  from knowledge d where d.tenant = $1 and d.id = $2`

/** Limits of a single statement, so that a large tenant does not delay others. */
export interface KnowledgeBounds {
  /** Chunks per insert; a longer text is added in several slices. */
  readonly slice: number
  /** Limit of matching chunks that a search checks against its filters. */
  readonly examined: number
  /** Limit of chunks that are ranked. */
  readonly ranked: number
  /** A word in this many chunks is a common word. */
  readonly common: number
  /** Time limit of each statement of a search, on PostgreSQL. */
  readonly searchMs: number
  /** A draft without an addition for this long is abandoned. */
  readonly draftSeconds: number
}

export const usualBounds: KnowledgeBounds = {
  slice: 100,
  examined: 20_000,
  ranked: 10_000,
  common: 1_000,
  searchMs: 5_000,
  draftSeconds: 3_600,
}
