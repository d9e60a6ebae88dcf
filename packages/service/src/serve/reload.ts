import { type Issue, ToolError } from '@gantry/contract'
import type { Bus } from '../observe/bus.ts'

const mostIssues = 20

/**
 * Reads the configuration again for whoever asks: its file changed, a signal came, a gateway or another process said so.
 * One at a time, in the order in which they were asked for, so that what was read first cannot come to be used last.
 * What is wrong is told, not used, and rejects; what is in use then stays.
 */
export function createReload(read: () => Promise<void>, bus: Bus): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  const tryIt = async (): Promise<void> => {
    try {
      await read()
    } catch (error) {
      bus.emit('config:refused', { reason: reasonOf(error), issues: issuesOf(error) })
      throw error
    }
    bus.emit('config:read', {})
  }
  return () => {
    const mine = last.then(tryIt)
    last = mine.catch(() => undefined)
    return mine
  }
}

/** An error of the host's own module may hold anything, but it is what its writer needs. */
function reasonOf(error: unknown): string {
  return ToolError.is(error) || error instanceof Error ? error.message : String(error)
}

function issuesOf(error: unknown): readonly Pick<Issue, 'path' | 'message'>[] {
  const issues = ToolError.is(error) ? (error.details?.issues ?? []) : []
  return issues.slice(0, mostIssues).map(({ path, message }) => ({ path, message }))
}
