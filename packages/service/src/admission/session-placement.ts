import { createHash } from 'node:crypto'
import { type Issue, ToolError } from '@gantry/contract'
import type { WorkerRecords } from '../storage/workers.ts'

/** The label of the worker that has the sessions of a tag. */
export const sessionLabel = 'gantry.sessions'

/** What the ids of a worker's sessions begin with; says nothing of the host. */
export function sessionTag(worker: string): string {
  return createHash('sha256').update(worker).digest('hex').slice(0, 12)
}

/** No session rests for longer, so a call that waited so long would not find its own. */
export const sessionWaitMs = 600_000

/** The tag of the session that a call names, which it has to run beside; undefined for all other calls. */
export function namedSession(tool: string, args: unknown): string | undefined {
  if (!/^code:session(?::|$)/i.test(tool)) return undefined
  const { session } = args as { readonly session?: unknown }
  return typeof session === 'string' ? /^([0-9a-f]{12})\./.exec(session)?.[1] : undefined
}

/** The session went with its worker. */
export function sessionGone(): ToolError {
  const issue: Issue = { path: '/session', message: 'ended, because the worker that had it is gone' }
  return new ToolError('INPUT_INVALID', `The session ${issue.message}; open a new one.`, {
    details: { issues: [issue] },
  })
}

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
