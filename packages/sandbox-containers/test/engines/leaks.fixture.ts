import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Program, Runtime } from '@gantry/sandbox'
import {
  type EngineServer,
  type EngineUnderTest,
  settledTraces,
  stableTraces,
  type Traces,
  withEngine,
} from './engine-under-test.fixture.ts'
import { limits } from './limits.fixture.ts'

/** How much is done before what is left is counted. */
export interface Campaign {
  readonly runs: number
  readonly sessions: number
  /** How many of them, alternately runs and sessions, have an owner that is killed with -9 while its program runs. */
  readonly killed: number
}

const { signal } = new AbortController()
/** How many sandboxes exist at a time. */
const lanes = 4
/** How many owners exist at a time. */
const ownerLanes = 2

/**
 * Runs programs and sessions in an engine of its own, some of them by owners that are killed, and counts what is there
 * before and after; answers with the counts.
 */
export async function countLeaks(engine: EngineUnderTest, campaign: Campaign): Promise<{ [what: string]: number }> {
  const root = mkdtempSync(join(tmpdir(), 'gantry-leaks-'))
  try {
    return await withEngine(engine, async (server) => {
      const count = (): Promise<Traces> => engine.traces(server, root)
      // What is made once stays: folders, and the control group of all containers.
      const during = await withRuntime(engine, server, root, (runtime) => countDuring(runtime, count))
      const before = await stableTraces(count)
      for (const what of ['containers', 'layers', 'mounts', 'cgroups', 'processes', 'files', 'files of sandboxes']) {
        const [most, least] = [during[what]?.length ?? 0, before[what]?.length ?? 0]
        assert.ok(most > least, `A running sandbox is not counted among the ${what}: ${most}, and ${least} without it.`)
      }
      await withRuntime(engine, server, root, async (runtime) => {
        const { runs, sessions, killed } = campaign
        const killedRuns = Math.ceil(killed / 2)
        await Promise.all([
          inLanes(ownerLanes, killed, (n) => killOwner(engine, server, root, n % 2 === 0 ? 'run' : 'session')),
          inLanes(lanes, runs - killedRuns, (n) => runOnce(runtime, n)),
        ])
        await inLanes(lanes, sessions - (killed - killedRuns), (n) => useSession(runtime, n))
      })
      // The next process that uses the engine removes what the killed ones left.
      await withRuntime(engine, server, root, (runtime) => runOnce(runtime, 0))
      assert.deepEqual(await settledTraces(count, before), before)
      return Object.fromEntries(Object.entries(before).map(([what, names]) => [what, names.length]))
    })
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

async function withRuntime<T>(
  engine: EngineUnderTest,
  { socket }: EngineServer,
  root: string,
  work: (runtime: Runtime) => Promise<T>,
): Promise<T> {
  const runtime = engine.runtime(socket, root)
  try {
    return await work(runtime)
  } finally {
    await runtime.close()
  }
}

/** Does work a number of times, some at a time. */
async function inLanes(width: number, times: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < times) {
      next += 1
      await work(next)
    }
  }
  await Promise.all(Array.from({ length: width }, lane))
}

/** What is there while a program runs. */
async function countDuring(runtime: Runtime, count: () => Promise<Traces>): Promise<Traces> {
  const counted = Promise.withResolvers<Traces>()
  const sandbox = await runtime.open({ limits, network: 'none' }, signal)
  const onOutput = (): void => counted.resolve(count())
  const done = sandbox.run({ program: { kind: 'script', script: 'echo runs; sleep 600' }, onOutput }, signal)
  done.catch(counted.reject)
  try {
    return await counted.promise
  } finally {
    await sandbox.dispose()
    await done.catch(() => undefined)
  }
}

/** Every tenth is Python, the others are scripts. */
async function runOnce(runtime: Runtime, n: number): Promise<void> {
  const isPython = n % 10 === 0
  const program: Program = isPython
    ? { kind: 'code', language: 'python', code: `import sys\nprint(${n})\nsys.exit(${n % 7})` }
    : { kind: 'script', script: `echo ${n}; exit ${n % 7}` }
  const spec = { limits, network: 'none', ...(isPython ? { language: 'python' } : {}) } as const
  const sandbox = await runtime.open(spec, signal)
  try {
    const { exit, stdout } = await sandbox.run({ program }, signal)
    assert.deepEqual([exit, new TextDecoder().decode(stdout.bytes)], [{ code: n % 7 }, `${n}\n`])
  } finally {
    await sandbox.dispose()
  }
}

async function useSession(runtime: Runtime, n: number): Promise<void> {
  const python = (code: string): Program => ({ kind: 'code', language: 'python', code })
  const sandbox = await runtime.open({ limits, network: 'none', language: 'python', session: true }, signal)
  try {
    await sandbox.run({ program: python(`kept = ${n}\nopen('kept', 'w').write('x')`) }, signal)
    const { value } = await sandbox.run({ program: python('return kept + 1') }, signal)
    assert.equal(value, n + 1)
  } finally {
    await sandbox.dispose()
  }
}

/** Kills a process with -9 while its program runs. */
async function killOwner(
  { name }: EngineUnderTest,
  { socket }: EngineServer,
  root: string,
  use: 'run' | 'session',
): Promise<void> {
  const file = join(import.meta.dirname, 'owner.fixture.ts')
  const owner = spawn(process.execPath, [file, name, use, socket, root], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(owner, 'exit')
  try {
    let id: string | undefined
    for await (const line of createInterface({ input: owner.stdout })) {
      id = line
      break
    }
    assert.ok(id !== undefined, 'The owner ended by itself.')
  } finally {
    owner.kill('SIGKILL')
    await ended
  }
}
