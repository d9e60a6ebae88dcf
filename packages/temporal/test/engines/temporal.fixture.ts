import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { createProcessRuntime, type Runtime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { bundleWorkflows, startTemporalWorker, type TemporalTarget } from '@gantry/temporal'
import { clientOf } from '@gantry/temporal/internal/connection/connect'
import { createTemporalRuntime } from '@gantry/temporal/internal/runtime/temporal-runtime'

/** The address of the server that the run of the tests started. */
export function serverAddress(): string {
  const { GANTRY_TEST_TEMPORAL: address } = process.env
  if (address === undefined) throw new Error('Run it with `npm run test:engines`, which starts a Temporal server.')
  return address
}

/** A target with task queues and a key of its own, so that tests share nothing but the server. */
export function newTarget(address: string = serverAddress()): TemporalTarget {
  const name = randomBytes(6).toString('hex')
  return { address, namespace: 'default', taskQueue: `test-${name}`, payloadKeys: [randomBytes(32)] }
}

/** The runtime temporal over a worker in this process, which offers the runtime `process`. */
export async function startRuntime(target = newTarget(), pool?: false): Promise<Runtime> {
  const runtimes = createRuntimes({ runtimes: [createProcessRuntime()], ...(pool === undefined ? {} : { pool }) })
  const worker = await startTemporalWorker({ target, runtimes, bundle: await bundleWorkflows() })
  const client = clientOf(target)
  const runtime = createTemporalRuntime(async () => client)
  const close = async (): Promise<void> => {
    await runtime.close()
    await worker.close()
    await runtimes.close()
  }
  // Not a spread: `isolation` is a getter.
  return Object.create(runtime, { close: { value: close } }) as Runtime
}

/** Starts workers in processes of their own, to be killed; their tools write to `ledger`. */
export async function workerStarter(
  t: TestContext,
  { address, taskQueue, payloadKeys }: TemporalTarget,
  ledger: string,
): Promise<() => Promise<ChildProcess>> {
  const [key = new Uint8Array()] = payloadKeys
  const bundle = await bundleWorkflows()
  const given = JSON.stringify({ address, taskQueue, key: Buffer.from(key).toString('base64'), bundle, ledger })
  return async () => {
    const program = join(import.meta.dirname, 'killed-worker.fixture.ts')
    const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
    t.after(() => child.kill('SIGKILL'))
    child.stdin.end(given)
    await once(child.stdout, 'data')
    return child
  }
}
