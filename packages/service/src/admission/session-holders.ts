import type { WorkerRecords } from '../storage/workers.ts'
import { sessionTag } from './session-placement.ts'

/** Tells whether a worker that takes calls has the sessions of a tag: this process, named `own` when it executes calls, or another. */
export function sessionHolders(
  workers: Pick<WorkerRecords, 'list'>,
  own: string | undefined,
): (tag: string) => Promise<boolean> {
  const ownTag = own === undefined ? undefined : sessionTag(own)
  return async (tag) => {
    if (tag === ownTag) return true
    const there = (await workers.list()).filter(({ state }) => state !== 'gone' && state !== 'draining')
    return there.some(({ worker, roles }) => roles.includes('worker') && sessionTag(worker) === tag)
  }
}
