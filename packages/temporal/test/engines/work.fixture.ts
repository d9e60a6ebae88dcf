import { type Audit, type AuditRecord, createExecutor, defineTool, type Executor, lazyRuntimes } from '@gantry/core'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createWasmRuntime } from '@gantry/sandbox-wasm'
import {
  bundleWorkflows,
  clientOf,
  createTemporalEngine,
  createWorkApprovals,
  startTemporalWorker,
  type TemporalEngine,
  type TemporalTarget,
} from '@gantry/temporal'
import { newTarget } from './temporal.fixture.ts'

/** A worker that runs work, in this process, and an executor that hands work to it. */
export interface WorkBench {
  readonly target: TemporalTarget
  readonly gantry: Executor
  readonly engine: TemporalEngine
  /** Calls that tools of the worker received: outside of the system under test. */
  readonly ledger: string[]
  readonly records: AuditRecord[]
  close(): Promise<void>
}

const integer = { type: 'integer' } as const

/** The tools of the worker; each call is noted. */
export function toolsOf(note: (text: string) => void) {
  const inputSchema = { type: 'object', properties: { a: integer, b: integer }, required: ['a', 'b'] } as const
  return [
    defineTool({
      namespace: 'sum',
      name: 'add',
      effect: 'read',
      description: 'Adds two numbers.',
      inputSchema,
      run: ({ a, b }, { identity }) => {
        note(`add ${a} ${b} ${identity.principal}`)
        return { result: Number(a) + Number(b) }
      },
    }),
    defineTool({
      namespace: 'sum',
      name: 'book',
      effect: 'once',
      description: 'Books a number.',
      permissions: ['book'],
      inputSchema: { type: 'object', properties: { a: integer }, required: ['a'] },
      run: ({ a }) => {
        note(`book ${a}`)
        return { booked: a }
      },
    }),
    defineTool({
      namespace: 'sum',
      name: 'pay',
      effect: 'once',
      approval: 'always',
      description: 'Pays a number.',
      inputSchema: { type: 'object', properties: { a: integer }, required: ['a'] },
      run: ({ a }) => {
        note(`pay ${a}`)
        return { paid: a }
      },
    }),
  ]
}

export async function startWork(target: TemporalTarget = newTarget(), bundle?: string): Promise<WorkBench> {
  const ledger: string[] = []
  const records: AuditRecord[] = []
  const audit: Audit = { write: (record) => void records.push(record) }
  const approvals = createWorkApprovals()
  const runtimes = lazyRuntimes(() => createRuntimes({ runtimes: [createWasmRuntime()] }))
  const executor = createExecutor({
    tools: toolsOf((text) => void ledger.push(text)),
    runtimes,
    audit,
    approver: approvals.approver,
  })
  const work = { executor, approvals, audit }
  const worker = await startTemporalWorker({ target, work, bundle: bundle ?? (await bundleWorkflows()) })
  const client = clientOf(target)
  const engine = createTemporalEngine(async () => client)
  const gantry = createExecutor({ engines: { temporal: engine } })
  return {
    target,
    gantry,
    engine,
    ledger,
    records,
    async close() {
      await gantry.close()
      await worker.close()
      await executor.close()
    },
  }
}
