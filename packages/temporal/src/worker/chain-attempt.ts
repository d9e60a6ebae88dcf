import { type ChainResult, type ChainStep, type Json, ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { type ChainOptions, runChain } from '@gantry/core/internal/chain/chain'
import type { RunStep } from '@gantry/core/internal/chain/context'
import type { CallRequest, JournalEntry } from '../protocol/work.ts'
import { callRequest, fingerprintOf, resultOf } from './call-requests.ts'
import { untilAborted } from './stillness.ts'

/** One chain, run from its journal: a call that the journal does not have is requested, and waits. */
export interface ChainAttempt {
  readonly ended: Promise<ChainResult>
  /** Calls that wait for an outcome. */
  readonly waiting: number
  /** Calls that the journal has. */
  readonly recalled: number
}

export interface ChainAttemptParts {
  readonly executor: Pick<Executor, 'catalog'>
  readonly id: string
  /** Before the keys of the calls: empty, or the number of the chain in its program. */
  readonly prefix: string
  readonly steps: readonly ChainStep[]
  readonly input: Json
  readonly limits?: ChainOptions['limits']
  readonly journal: ReadonlyMap<string, JournalEntry>
  readonly signal: AbortSignal
  /** Called for each call that waits. */
  onRequest(request: CallRequest): void
}

export function startChain(parts: ChainAttemptParts): ChainAttempt {
  const { executor, id, prefix, journal, signal, onRequest } = parts
  let [waiting, recalled] = [0, 0]
  const run: RunStep = async (tool, args, { stepId, index, timeoutMs, signal: step }) => {
    const key = `${prefix}${index === undefined ? stepId : `${stepId}.${index}`}`
    const fingerprint = fingerprintOf(tool, args)
    const entry = journal.get(key)
    if (entry === undefined) {
      waiting += 1
      onRequest(callRequest(executor, { key, fingerprint, tool, args, timeoutMs }))
      return await untilAborted(step).finally(() => {
        waiting -= 1
      })
    }
    if (entry.fingerprint !== fingerprint) throw diverged(key, entry.fingerprint, fingerprint)
    recalled += 1
    return resultOf(entry.outcome, `${id}.${key}`, tool, entry.atMs)
  }
  const ended = runChain(parts.steps, run, {
    chainId: prefix === '' ? id : `${id}.${prefix.slice(0, -1)}`,
    input: parts.input,
    limits: parts.limits,
    signal,
  })
  return {
    ended,
    get waiting() {
      return waiting
    },
    get recalled() {
      return recalled
    },
  }
}

function diverged(key: string, expected: string, actual: string): ToolError {
  const message = `The call ${key} of the chain differs from its journal; the chain was changed while it ran.`
  return new ToolError('CODE_DIVERGED', message, { details: { number: key, expected, actual } })
}
