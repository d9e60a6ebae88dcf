import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type ErrorCode, ToolError } from '@gantry/contract'
import type { Outcome, Runtime, Sandbox } from '@gantry/sandbox'
import {
  type EngineServer,
  enginesUnderTest,
  processesOf,
  settledTraces,
  stableTraces,
  type Traces,
  withEngine,
} from './engine-under-test.fixture.ts'
import { limits } from './limits.fixture.ts'

const { signal } = new AbortController()
const root = mkdtempSync(join(tmpdir(), 'gantry-faults-'))
after(() => rmSync(root, { recursive: true, force: true }))

const calls = 50
/** How many of them run when the engine fails under them. */
const running = 8

/** Starts a program that does not end by itself; `started` resolves when it runs. */
function runForever(sandbox: Sandbox): { readonly started: Promise<void>; readonly done: Promise<Outcome> } {
  const started = Promise.withResolvers<void>()
  const program = { kind: 'script', script: 'echo runs; sleep 600 & sleep 600' } as const
  const done = sandbox.run({ program, onOutput: () => started.resolve() }, signal)
  done.then(() => started.resolve(), started.reject)
  return { started: started.promise, done }
}

async function openAll(runtime: Runtime, wallMs: number): Promise<readonly Sandbox[]> {
  const spec = { limits: { ...limits, wallMs }, network: 'none' } as const
  return Promise.all(Array.from({ length: running }, () => runtime.open(spec, signal)))
}

/** One call as a pool makes it; how it ended: its exit, the limit that ended it, or the code of its error. */
async function callOnce(runtime: Runtime, n: number, onStart: () => void): Promise<string> {
  try {
    const sandbox = await runtime.open({ limits, network: 'none' }, signal)
    try {
      const program = { kind: 'script', script: `echo ${n}; sleep 1; exit ${n}` } as const
      const { exit, hit } = await sandbox.run({ program, onOutput: onStart }, signal)
      return hit ?? JSON.stringify(exit)
    } finally {
      await sandbox.dispose()
    }
  } catch (error) {
    assert.ok(ToolError.is(error), String(error))
    return error.code
  }
}

function hasCode(error: unknown, code: ErrorCode): error is ToolError {
  return ToolError.is(error) && error.code === code
}

/** That a call is refused with a reason and a remedy. */
async function isRefused(runtime: Runtime): Promise<void> {
  await assert.rejects(runtime.open({ limits, network: 'none' }, signal), (error) => {
    assert.ok(hasCode(error, 'RUNTIME_UNAVAILABLE'), String(error))
    const { reason, remedy } = (error.details ?? {}) as { readonly reason?: string; readonly remedy?: string }
    assert.ok(reason !== undefined && remedy !== undefined, error.message)
    return true
  })
}

/** That the engine serves, and that it has no more than before. */
async function isAsBefore(runtime: Runtime, count: () => Promise<Traces>, before: Traces): Promise<void> {
  assert.equal(await callOnce(runtime, 4, () => undefined), '{"code":4}')
  assert.deepEqual(await settledTraces(count, before), before)
}

/** How many there are of each, but for what is of the engine itself. */
function amounts({ processes: _, files: __, ...traces }: Traces): Traces {
  return Object.fromEntries(Object.entries(traces).map(([what, names]) => [what, [String(names.length)]]))
}

function hasEnded(pid: number): boolean {
  return !existsSync(`/proc/${pid}`) || /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
}

/** Processes of containers: those that the engine did not have before. */
function pidsSince(before: Traces, { folder }: EngineServer): readonly number[] {
  const known = new Set(before.processes)
  return processesOf(folder)
    .filter((process) => !known.has(process))
    .map((process) => Number.parseInt(process, 10))
}

for (const engine of enginesUnderTest) {
  test(`${engine.name}: an engine that fails under its calls`, async (t) => {
    await withEngine(engine, async (server) => {
      const runtime = engine.runtime(server.socket, root)
      const count = (): Promise<Traces> => engine.traces(server, root)
      try {
        assert.equal(await callOnce(runtime, 3, () => undefined), '{"code":3}')
        const before = await stableTraces(count)

        await t.test('the socket is removed while 50 calls run: 50 outcomes, and nothing is left', async (t) => {
          const away = `${server.socket}.away`
          const enough = Promise.withResolvers<void>()
          let started = 0
          const onStart = (): void => {
            started += 1
            if (started === running) enough.resolve()
          }
          const all = Array.from({ length: calls }, (_, n) => callOnce(runtime, n, onStart))
          await Promise.race([enough.promise, Promise.all(all)])
          renameSync(server.socket, away)
          try {
            if (engine.keepsConnection !== true) await isRefused(runtime)
            const ends = await Promise.all(all)
            assert.equal(ends.length, calls)
            const known = ['RUNTIME_UNAVAILABLE', 'SANDBOX_INIT_FAILED', 'BACKEND_FAILED', 'wallMs']
            for (const [n, end] of ends.entries()) {
              assert.ok(end === JSON.stringify({ code: n }) || known.includes(end), `call ${n}: ${end}`)
            }
            const counts = Map.groupBy(ends, (end) => (end.startsWith('{') ? 'ok' : end))
            t.diagnostic([...counts].map(([end, those]) => `${those.length} ${end}`).join(', '))
            assert.ok((counts.get('ok')?.length ?? 0) > 0, 'What ran was ended, too.')
          } finally {
            renameSync(away, server.socket)
          }
          await isAsBefore(runtime, count, before)
        })

        await t.test(
          'a frozen engine: its calls end by their wall limit, and after the thaw nothing is left',
          async () => {
            const sandboxes = await openAll(runtime, 3_000)
            const runs = sandboxes.map(runForever)
            await Promise.all(runs.map(({ started }) => started))
            const pids = pidsSince(before, server)
            assert.ok(pids.length > 0)
            server.pause()
            const ends = await Promise.all(runs.map(({ done }) => done))
            assert.deepEqual(
              ends.map(({ hit, exit }) => [hit, exit]),
              sandboxes.map(() => ['wallMs', { signal: 'SIGKILL' }]),
            )
            await isRefused(runtime)
            server.resume()
            await Promise.all(sandboxes.map((sandbox) => sandbox.dispose()))
            await isAsBefore(runtime, count, before)
            assert.deepEqual(
              pids.filter((pid) => !hasEnded(pid)),
              [],
            )
          },
        )

        await t.test(
          'a killed engine: its calls end with the reason, and it is used again when it is back',
          async () => {
            const sandboxes = await openAll(runtime, limits.wallMs)
            const runs = sandboxes.map(runForever)
            await Promise.all(runs.map(({ started }) => started))
            server.kill()
            for (const { done } of runs) {
              await assert.rejects(done, (error) => {
                assert.ok(hasCode(error, 'BACKEND_FAILED'), String(error))
                assert.match(error.message, /The connection to .* was lost\./)
                return true
              })
            }
            await isRefused(runtime)
            await Promise.all(sandboxes.map((sandbox) => sandbox.dispose()))
            await server.restart()
            assert.equal(await callOnce(runtime, 5, () => undefined), '{"code":5}')
            // The engine is another process now, with other sockets, and was prepared anew for another owner: as many as before.
            const others = async (): Promise<Traces> => amounts(await count())
            const rest = amounts(before)
            assert.deepEqual(await settledTraces(others, rest), rest)
          },
        )
      } finally {
        await runtime.close()
      }
    })
  })
}
