import { ToolError } from '@gantry/contract'

/** Waits for an answer no longer than its asker wants it: rejects with CANCELLED when the signal aborts before. */
export async function untilAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const end = (): void => aborted.reject(new ToolError('CANCELLED', 'The wait was ended.', { cause: signal.reason }))
  signal.addEventListener('abort', end, { once: true })
  if (signal.aborted) end()
  try {
    return await Promise.race([answer, aborted.promise])
  } finally {
    signal.removeEventListener('abort', end)
  }
}
