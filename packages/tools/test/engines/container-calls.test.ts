import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Result } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { builtinTools, createExecutor } from '@gantry/tools'
import {
  type EngineServer,
  enginesUnderTest,
  settledTraces,
  stableTraces,
  type Traces,
  withEngine,
} from '../../../sandbox-containers/test/engines/engine-under-test.fixture.ts'

const root = mkdtempSync(join(tmpdir(), 'gantry-calls-'))
after(() => rmSync(root, { recursive: true, force: true }))

const calls = 50
/** How many of them run when the engine fails under them. */
const running = 6

/** A call that says when its program runs; `code` ends it. */
interface Started {
  readonly started: Promise<void>
  readonly result: Promise<Result>
}

function start(gantry: Executor, runtime: string, code: string, limits: { readonly wallMs?: number } = {}): Started {
  const started = Promise.withResolvers<void>()
  const args = { language: 'python', code: `print('runs', flush=True)\n${code}`, runtime, limits }
  const follow = async (): Promise<Result> => {
    for await (const event of gantry.stream('code:run', args)) {
      if (event.kind === 'chunk') started.resolve()
      if (event.kind === 'done' || event.kind === 'error') return event.result
    }
    return assert.fail('The call had no end.')
  }
  const result = follow()
  result.then(() => started.reject(new Error('The call ended before its program ran.')), started.reject)
  started.promise.catch(() => undefined)
  return { started: started.promise, result }
}

/** How a call ended; it must have run in this runtime, if at all. */
function endOf({ status, error, runtime, output }: Result, kind: string): string {
  if (runtime !== undefined) assert.equal(runtime.kind, kind)
  if (status === 'ok') assert.equal((output as { readonly stdout: string }).stdout, 'runs\n')
  else assert.ok(error !== undefined && error.message.length > 0, JSON.stringify({ status, error }))
  return error?.code ?? status
}

/** Calls until one is served: a circuit stays open for some seconds, and an engine may still be busy with what was asked of it. */
async function isServed(gantry: Executor, kind: string): Promise<void> {
  const until = performance.now() + 120_000
  for (;;) {
    const end = endOf(await start(gantry, kind, 'pass').result, kind)
    if (end === 'ok' || performance.now() > until) return assert.equal(end, 'ok')
    await pause(200)
  }
}

const forever = 'import time\ntime.sleep(600)'

for (const engine of enginesUnderTest) {
  const { name, kind } = engine

  /** An executor that has served a call; what it leaves is counted when it is closed. */
  const withExecutor = async (server: EngineServer, work: (gantry: Executor) => Promise<void>): Promise<void> => {
    const gantry = createExecutor({ tools: builtinTools(), runtimes: { ...engine.options(server.socket), root } })
    try {
      await isServed(gantry, kind)
      await work(gantry)
      await isServed(gantry, kind)
    } finally {
      await gantry.close()
    }
  }

  test(`${name}: calls of code:run while the engine fails`, async (t) => {
    await withEngine(engine, async (server) => {
      const count = (): Promise<Traces> => engine.traces(server, root)
      await withExecutor(server, async () => undefined)
      const before = await stableTraces(count)

      await t.test(
        'the socket is removed while 50 calls run: 50 outcomes, none of them in another runtime',
        async (t) => {
          await withExecutor(server, async (gantry) => {
            const all = Array.from({ length: calls }, () => start(gantry, kind, 'import time\ntime.sleep(1)'))
            // On a busy machine the engine may answer none of so many in time.
            await Promise.any(all.map((call) => call.started)).catch(() => undefined)
            const away = `${server.socket}.away`
            renameSync(server.socket, away)
            try {
              const ends = (await Promise.all(all.map(({ result }) => result))).map((result) => endOf(result, kind))
              assert.equal(ends.length, calls)
              const known = ['ok', 'RUNTIME_UNAVAILABLE', 'SANDBOX_INIT_FAILED', 'BACKEND_FAILED', 'CIRCUIT_OPEN']
              assert.deepEqual(
                ends.filter((end) => !known.includes(end)),
                [],
              )
              const counts = Map.groupBy(ends, (end) => end)
              t.diagnostic([...counts].map(([end, those]) => `${those.length} ${end}`).join(', '))
            } finally {
              renameSync(away, server.socket)
            }
          })
          assert.deepEqual(await settledTraces(count, before), before)
        },
      )

      await t.test(
        'a frozen engine: what runs ends as timeout, what comes is refused, and nothing is left',
        async () => {
          await withExecutor(server, async (gantry) => {
            const all = Array.from({ length: running }, () => start(gantry, kind, forever, { wallMs: 5_000 }))
            await Promise.all(all.map(({ started }) => started))
            server.pause()
            try {
              for (const { result } of all) {
                const { status, usage } = await result
                assert.deepEqual([status, usage.hit], ['timeout', 'wallMs'])
              }
              const { error } = await start(gantry, kind, 'pass', { wallMs: 7_000 }).result
              assert.equal(error?.code, 'RUNTIME_UNAVAILABLE')
              assert.match(error?.message ?? '', /did not answer within 15 s\. Look at the log of/)
            } finally {
              server.resume()
            }
          })
          assert.deepEqual(await settledTraces(count, before), before)
        },
      )

      await t.test(
        'a killed engine: what runs ends with the reason, and the next call after its restart runs',
        async () => {
          await withExecutor(server, async (gantry) => {
            const all = Array.from({ length: running }, () => start(gantry, kind, forever))
            await Promise.all(all.map(({ started }) => started))
            server.kill()
            try {
              for (const { result } of all) assert.equal(endOf(await result, kind), 'BACKEND_FAILED')
              // Other limits than those of warm sandboxes, which died with the engine.
              const refused = await start(gantry, kind, 'pass', { wallMs: 7_000 }).result
              assert.equal(endOf(refused, kind), 'RUNTIME_UNAVAILABLE')
            } finally {
              await server.restart()
            }
          })
        },
      )
    })
  })
}
