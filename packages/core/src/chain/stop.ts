import type { Failure } from './failure.ts'

/** Ends what is under way in a chain: the caller's signal does, or the first failure that the chain cannot go on from. */
export interface Stop {
  readonly signal: AbortSignal
  /** What ended the chain; absent while it runs and when the caller cancelled it. */
  readonly failure: Failure | undefined
  end(failure: Failure): void
}

/** Gives `work` a Stop that follows the caller's signal and lets go of it afterwards. */
export async function withStop<T>(parent: AbortSignal | undefined, work: (stop: Stop) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  let first: Failure | undefined
  const follow = (): void => controller.abort(parent?.reason)
  if (parent?.aborted) follow()
  else parent?.addEventListener('abort', follow, { once: true })
  try {
    return await work({
      signal: controller.signal,
      get failure() {
        return first
      },
      end(failure) {
        first ??= failure
        controller.abort(new Error('Another call of the chain failed.'))
      },
    })
  } finally {
    parent?.removeEventListener('abort', follow)
  }
}
