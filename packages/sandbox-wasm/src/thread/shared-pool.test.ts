import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import type { Worker } from 'node:worker_threads'
import type { JsonObject } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { webAssembly } from '../guest/binary.ts'
import { compileQuickjs } from '../quickjs/engine.ts'
import { createThreadSharing } from './shared-pool.ts'

const program = { language: 'javascript', code: 'return 6 * 7', runtime: 'wasm' }

test('executors of a process compile QuickJS once and share their threads, and none outlives them', async () => {
  const compiled: Uint8Array[] = []
  const compile = webAssembly.compile
  Object.assign(webAssembly, {
    compile: (bytes: Uint8Array) => {
      compiled.push(bytes)
      return compile(bytes)
    },
  })
  const started = new Set<Worker>()
  const gone = new Set<Worker>()
  const watch = (message: unknown): void => {
    const { worker } = message as { readonly worker: Worker }
    started.add(worker)
    worker.once('exit', () => gone.add(worker))
  }
  channel('worker_threads').subscribe(watch)
  try {
    const count = availableParallelism() + 3
    const executors = Array.from({ length: count }, () => createExecutor({ tools: builtinTools() }))
    for (const gantry of executors) {
      const { status, output, error } = await gantry.run('code:run', program)
      assert.deepEqual([status, (output as JsonObject)?.value], ['ok', 42], JSON.stringify(error))
    }
    assert.equal(compiled.length, 1)
    // The self-test may have one killed for its endless loop, which another one replaces.
    assert.ok(started.size <= availableParallelism() + 2, `${started.size} threads for ${count} executors`)
    await Promise.all(executors.map((gantry) => gantry.close()))
    assert.deepEqual(
      [...started].filter((worker) => !gone.has(worker)),
      [],
      'threads that outlived all executors',
    )
    const later = createExecutor({ tools: builtinTools() })
    assert.equal((await later.run('code:run', program)).status, 'ok')
    await later.close()
    assert.equal(compiled.length, 1, 'what was compiled is kept when all executors are closed')
  } finally {
    channel('worker_threads').unsubscribe(watch)
    Object.assign(webAssembly, { compile })
  }
})

test('a runtime keeps its own thread limit beside others, and closing it ends only its own threads', async () => {
  const signal = AbortSignal.timeout(60_000)
  const sharing = createThreadSharing()
  const quickjs = await compileQuickjs()
  const [busy, other] = [sharing.join(1, quickjs), sharing.join(1, quickjs)]
  const long = await busy.take(signal)
  const refused = assert.rejects(busy.take(signal), { code: 'SANDBOX_INIT_FAILED' })
  const own = await other.take(signal)
  assert.notEqual(own, long)
  await busy.close()
  await refused
  assert.deepEqual([long.alive, own.alive], [false, true])
  other.give(own)
  assert.equal(await other.take(signal), own)
  await other.close()
  assert.equal(own.alive, false)
  await assert.rejects(other.take(signal), { code: 'SANDBOX_INIT_FAILED' })
})

test('a waiting run of another tenant gets a thread before later runs of the first tenant', async () => {
  const signal = AbortSignal.timeout(60_000)
  const threads = createThreadSharing().join(1, await compileQuickjs())
  const order: string[] = []
  const run = async (tenant: string, name: string): Promise<void> => {
    const thread = await threads.take(signal, tenant)
    order.push(name)
    threads.give(thread)
  }
  const long = await threads.take(signal, 'acme')
  const waiting = [...Array.from({ length: 5 }, (_, index) => run('acme', `acme ${index}`)), run('other', 'other')]
  threads.give(long)
  await Promise.all(waiting)
  assert.deepEqual(order.slice(0, 3), ['acme 0', 'other', 'acme 1'])
  await threads.close()
})
