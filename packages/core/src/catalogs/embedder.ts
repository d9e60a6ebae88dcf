/**
 * Turns texts into vectors, so that a search can find what means the same in other words.
 * - Concurrency: several `embed` calls may run at once.
 * - Cancellation: rejects soon after `signal` aborts; the search does not wait for one that does not.
 * - Time: each call has 10 s, or what `embedMs` says; then `signal` aborts and the call counts as failed.
 * - Errors: any rejection; the search then answers by words alone and says so.
 * - Answer: one vector for each text, in order, all of one length; equal texts give equal vectors as long as `id` stays.
 * - Ownership: the texts are the catalog's own, the vectors become the catalog's.
 */
export interface Embedder {
  /** Name and version of the model: vectors of another id are never compared. */
  readonly id: string
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>
}
