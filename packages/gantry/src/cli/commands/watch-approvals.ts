import { setTimeout as delay } from 'node:timers/promises'
import type { ApprovalView, Client } from '@gantry/client'
import { ToolError } from '@gantry/contract'
import type { Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

/** The interval between two looks at the list. */
const lookMs = 2_000
const pageSize = 100
/** Pages of open approvals that one look reads. Those beyond are read one by one once they are known. */
const mostPages = 10

type Waiting = Pick<OptionValues, 'json' | 'all'>

/**
 * Prints the open approvals, then each new one and each decision as it comes, until the signal aborts. The list is read at
 * an interval. While the service does not answer, the look is repeated; the first one must succeed.
 */
export async function watchApprovals(
  client: Pick<Client, 'approvals'>,
  options: Waiting,
  io: Io,
  everyMs = lookMs,
): Promise<number> {
  const states = new Map<string, ApprovalView['state']>()
  let down = false
  for (let first = true; !io.signal.aborted; first = false) {
    try {
      const seen = await look(client, states, io.signal)
      if (down) io.err('The service answers again.\n')
      down = false
      for (const approval of seen) {
        const before = states.get(approval.id)
        states.set(approval.id, approval.state)
        const isOld = first && approval.state !== 'open' && options.all !== true
        if (before !== approval.state && !isOld) await print(approval, options, io)
      }
    } catch (error) {
      if (io.signal.aborted) break
      if (first || !isPassing(error)) throw error
      if (!down) io.err(`The service does not answer (${safeLine(error.message)}); trying again.\n`)
      down = true
    }
    await delay(everyMs, undefined, { signal: io.signal }).catch(() => undefined)
  }
  return 0
}

/** The open approvals and the newest decided ones, oldest first, and those that were open and are in neither list. */
async function look(
  { approvals }: Pick<Client, 'approvals'>,
  states: ReadonlyMap<string, ApprovalView['state']>,
  signal: AbortSignal,
): Promise<readonly ApprovalView[]> {
  const found = new Map<string, ApprovalView>()
  const add = (items: readonly ApprovalView[]): void => {
    for (const item of items) found.set(item.id, item)
  }
  let cursor: string | undefined
  for (let page = 0; page < mostPages; page += 1) {
    const open = await approvals.list({ state: 'open', limit: pageSize, signal, ...(cursor && { cursor }) })
    add(open.items)
    cursor = open.cursor
    if (cursor === undefined) break
  }
  // Read last, so that a decision made meanwhile counts.
  add((await approvals.list({ state: 'all', limit: pageSize, signal })).items)
  for (const [id, state] of states) {
    if (state !== 'open' || found.has(id)) continue
    const one = await approvals.get(id, { signal }).catch((error: unknown) => {
      if (ToolError.is(error) && error.code === 'NOT_FOUND') return undefined
      throw error
    })
    if (one !== undefined) add([one])
  }
  return [...found.values()].sort((one, other) => one.askedAt.localeCompare(other.askedAt))
}

/** Whether a later look can succeed: the service restarts, or refuses because it is busy. */
function isPassing(error: unknown): error is ToolError {
  return ToolError.is(error) && error.retryable
}

async function print(approval: ApprovalView, { json }: Waiting, io: Io): Promise<void> {
  if (json === true) {
    const { args: _args, ...view } = approval
    await printJson(view, io)
    return
  }
  const { id, state, tool, principal, reason, expiresAt, decided } = approval
  const by = decided === undefined ? '' : ` by ${decided.by}${decided.why === undefined ? '' : `: ${decided.why}`}`
  const asks = `${tool} for ${principal}, until ${expiresAt}: ${reason}`
  await io.out(`${safeLine(state === 'open' ? `open ${id} ${asks}` : `${state} ${id} ${tool}${by}`)}\n`)
}
