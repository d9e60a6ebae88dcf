import type { WorkerRecords } from '../storage/workers.ts'
import { sessionTag } from './session-placement.ts'

/** Tells whether a worker that takes calls has the sessions of a tag: this process, whose tag is `own`, or another. */
export function sessionHolders(
  workers: Pick<WorkerRecords, 'list'>,
  own: string | undefined,
): (tag: string) => Promise<boolean> {
  return async (tag) => {
    if (tag === own) return true
    const there = (await workers.list()).filter(({ state }) => state !== 'gone' && state !== 'draining')
    return there.some(({ worker, roles }) => roles.includes('worker') && sessionTag(worker) === tag)
  }
}
