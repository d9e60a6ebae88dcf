import { createExecutor, lazyRuntimes } from '@gantry/core'
import { createProcessRuntime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createWasmRuntime } from '@gantry/sandbox-wasm'
import { createWorkApprovals, startTemporalWorker } from '@gantry/temporal'
import { killTools } from './kill-tools.fixture.ts'

/** A worker in a process of its own, to be killed. Its settings come on stdin, because they hold a key. */
interface Given {
  readonly address: string
  readonly taskQueue: string
  readonly key: string
  readonly bundle: string
  /** A file, outside of the system under test, to which tools write that they were called. */
  readonly ledger: string
}

const chunks: Buffer[] = []
for await (const chunk of process.stdin) chunks.push(chunk)
const given: Given = JSON.parse(Buffer.concat(chunks).toString())
const target = {
  address: given.address,
  namespace: 'default',
  taskQueue: given.taskQueue,
  payloadKeys: [Buffer.from(given.key, 'base64')],
}
const approvals = createWorkApprovals()
const executor = createExecutor({
  tools: killTools(given.ledger),
  runtimes: lazyRuntimes(() => createRuntimes({ runtimes: [createWasmRuntime()] })),
  approver: approvals.approver,
})
const runtimes = createRuntimes({ runtimes: [createProcessRuntime()] })
const worker = await startTemporalWorker({
  target,
  runtimes,
  work: { executor, approvals },
  bundle: given.bundle,
  graceMs: 500,
})
process.once('SIGTERM', () => {
  void worker.close().then(() => process.exit(0))
})
process.stdout.write('ready\n')
