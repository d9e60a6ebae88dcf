/** How much a statement may do at once, so that one tenant with very much does not keep the others waiting. */
export interface KnowledgeBounds {
  /** Pieces that are added at once; those of a longer text follow one slice after the other. */
  readonly slice: number
  /** Pieces that hold what is looked for, of which a search looks whether they fit. */
  readonly examined: number
  /** Of those that fit, the ones that are weighed. */
  readonly ranked: number
  /** A word that so many pieces hold says little. */
  readonly common: number
  /** How long each statement of a search may take, where the database can end one. */
  readonly searchMs: number
  /** A draft that nobody has added to for so long belongs to somebody who died. */
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
