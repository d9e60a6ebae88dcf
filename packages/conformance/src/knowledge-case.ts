import type { Embedder } from '@gantry/core/internal/catalogs/embeddings'
import type { Knowledge, KnowledgeLimits, KnowledgeQuery, ReadDocument } from '@gantry/knowledge/internal/knowledge'

/** How knowledge is to be made: empty, with these limits for each tenant. */
export interface KnowledgeSetup {
  readonly limits?: Partial<KnowledgeLimits>
  readonly embedder?: Embedder
}

export type KnowledgeCase = readonly [
  title: string,
  body: (knowledge: Knowledge) => Promise<void>,
  setup?: KnowledgeSetup,
]

export const signal: AbortSignal = new AbortController().signal
export const acme = 'acme'
export const umbrella = 'umbrella'

/** What a search finds, in its order. */
export async function ids(
  knowledge: Knowledge,
  query: string,
  more: Partial<KnowledgeQuery> = {},
  tenant = acme,
): Promise<string[]> {
  return (await knowledge.search({ query, ...more }, tenant, signal)).items.map(({ id }) => id)
}

/** A whole document. */
export function get(knowledge: Knowledge, id: string, tenant = acme): Promise<ReadDocument> {
  return knowledge.get(id, { from: 0, limit: 1_000 }, tenant, signal)
}
