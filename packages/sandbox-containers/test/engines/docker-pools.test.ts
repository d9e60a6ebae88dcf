import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createRuntimes, type Runtime, type Runtimes, type Sandbox } from '@gantry/sandbox'
import { createDockerRuntime, createGvisorRuntime, type DockerOptions } from '@gantry/sandbox-containers'
import { api, containers, containersLeft } from './docker-api.fixture.ts'
import { dockerSocket } from './engines.fixture.ts'
import { pauseIdle } from './idle-pause.fixture.ts'
import { limits } from './limits.fixture.ts'

const { signal } = new AbortController()
const root = mkdtempSync(join(tmpdir(), 'gantry-pools-'))
after(() => rmSync(root, { recursive: true, force: true }))

const kinds: { readonly [kind: string]: (options: DockerOptions) => Runtime } = {
  docker: createDockerRuntime,
  gvisor: createGvisorRuntime,
}
const python = { language: 'python', limits, network: 'none' } as const
const program = { kind: 'code', language: 'python', code: 'print(6*7)' } as const

interface State {
  readonly Id: string
  readonly State: { readonly Pid: number; readonly Paused: boolean }
}

async function stateOf(id: string): Promise<State['State']> {
  const found = (await api(dockerSocket(), 'GET', `/containers/gantry-${id}/json`)) as State
  return found.State
}

type Pool = NonNullable<Parameters<typeof createRuntimes>[0]['pool']>
/** Waits until the containers of the pool are as they should be; the test's time limit bounds it. */
type Until = (fits: (ids: readonly string[]) => boolean) => Promise<readonly string[]>
type Opened = ReadonlyMap<string, Sandbox>

async function withPool<T>(
  pool: Pool,
  work: (runtimes: Runtimes, until: Until, opened: Opened) => Promise<T>,
): Promise<T> {
  const runtime = createDockerRuntime({ socket: dockerSocket(), root })
  const opened = new Map<string, Sandbox>()
  const recorded: Runtime = {
    ...runtime,
    async open(spec, given) {
      const sandbox = await runtime.open(spec, given)
      opened.set(sandbox.id, sandbox)
      return sandbox
    },
  }
  const until: Until = async (fits) => {
    for (;;) {
      const ids = (await containers(dockerSocket())).filter((id) => opened.has(id))
      if (fits(ids)) return ids
      await pause(50)
    }
  }
  const runtimes = createRuntimes({ runtimes: [recorded], limits, pool })
  try {
    return await work(runtimes, until, opened)
  } finally {
    await runtimes.close()
  }
}

async function printed(runtimes: Runtimes): Promise<string> {
  const { outcome } = await runtimes.run({ program, runtime: 'docker' }, signal)
  return new TextDecoder().decode(outcome.stdout.bytes)
}

test('a pool of containers starts ahead, gives each out once, and leaves none when it is closed', async () => {
  const waited = await withPool({ min: 2, max: 2, maxIdleMs: 600_000 }, async (runtimes, until) => {
    await printed(runtimes)
    for (let round = 0; round < 3; round += 1) {
      await until(() => runtimes.load().waiting === 2)
      const ready = await until((ids) => ids.length === 2)
      assert.equal(await printed(runtimes), '42\n')
      // The one that served the run is gone, and the other still waits, beside a new one.
      const kept = await until((ids) => ids.length === 2 && !ready.every((id) => ids.includes(id)))
      assert.equal(ready.filter((id) => kept.includes(id)).length, 1)
    }
    await until(() => runtimes.load().waiting === 2)
    return until((ids) => ids.length === 2)
  })
  assert.deepEqual(await containersLeft(dockerSocket(), waited, 0), [])
})

test('the number and the bytes of waiting containers are bounded by what they use', async () => {
  await withPool({ min: 4, max: 4, maxTotal: 2, maxIdleMs: 600_000 }, async (runtimes, until) => {
    await printed(runtimes)
    await until(() => runtimes.load().waiting === 2)
    await until((ids) => ids.length === 2)
  })
  const runtime = createDockerRuntime({ socket: dockerSocket(), root })
  const sandbox = await runtime.open(python, signal)
  await pause(1_000)
  const used = sandbox.memoryBytes?.() ?? 0
  await sandbox.dispose()
  await runtime.close()
  assert.ok(used > 5 * 2 ** 20 && used < 60 * 2 ** 20, `${used} bytes`)
  // Space for two and a half of that size, whatever the estimate says.
  const pool = { min: 4, max: 4, maxMemoryBytes: Math.round(used * 2.5), maxIdleMs: 600_000 }
  await withPool(pool, async (runtimes, until, opened) => {
    await printed(runtimes)
    await until(() => runtimes.load().waiting > 0)
    await pause(3_000)
    const ids = await until((all) => all.length === runtimes.load().waiting)
    const sum = ids.reduce((bytes, id) => bytes + (opened.get(id)?.memoryBytes?.() ?? 0), 0)
    assert.ok(ids.length > 0 && sum <= pool.maxMemoryBytes, `${ids.length} with ${sum} bytes`)
  })
})

for (const [kind, create] of Object.entries(kinds)) {
  test(`${kind}: a run after a pause has its whole wall time, and its result`, async () => {
    const runtime = create({ socket: dockerSocket(), root, pause: true })
    try {
      const spec = { ...python, limits: { ...limits, wallMs: 5_000 } }
      const sandbox = await runtime.open(spec, signal)
      await pauseIdle(sandbox)
      assert.equal((await stateOf(sandbox.id)).Paused, true)
      await pause(6_000)
      await sandbox.pausing?.resume(signal)
      assert.equal((await stateOf(sandbox.id)).Paused, false)
      const { stdout, hit, usage } = await sandbox.run({ program }, signal)
      assert.deepEqual([new TextDecoder().decode(stdout.bytes), hit], ['42\n', undefined])
      assert.ok(usage.wallMs < 5_000)
      await sandbox.dispose()
    } finally {
      await runtime.close()
    }
  })

  test(`${kind}: a paused container is killed and removed by dispose, and by the close of its runtime`, async () => {
    const runtime = create({ socket: dockerSocket(), root, pause: true })
    const ids: string[] = []
    const pids: number[] = []
    try {
      const sandboxes = await Promise.all([runtime.open(python, signal), runtime.open(python, signal)])
      for (const sandbox of sandboxes) {
        await pauseIdle(sandbox)
        ids.push(sandbox.id)
        pids.push((await stateOf(sandbox.id)).Pid)
      }
      await sandboxes[0].dispose()
    } finally {
      await runtime.close()
    }
    assert.deepEqual(await containersLeft(dockerSocket(), ids), [])
    assert.deepEqual(pids.filter(isAlive), [])
  })

  test(`${kind}: paused containers of an owner that was killed with -9 are removed when the next one starts`, async () => {
    const file = join(import.meta.dirname, 'paused-owner.fixture.ts')
    const owner = spawn(process.execPath, [file, kind, dockerSocket(), root], { stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      const ids: string[] = []
      for await (const line of createInterface({ input: owner.stdout })) {
        ids.push(line)
        if (ids.length === 2) break
      }
      const states = await Promise.all(ids.map(stateOf))
      assert.deepEqual(
        states.map(({ Paused }) => Paused),
        [true, true],
      )
      const gone = once(owner, 'exit')
      owner.kill('SIGKILL')
      await gone
      const next = create({ socket: dockerSocket(), root })
      try {
        await (await next.open(python, signal)).dispose()
        assert.deepEqual(await containersLeft(dockerSocket(), ids), [])
        assert.deepEqual(states.map(({ Pid }) => Pid).filter(isAlive), [])
      } finally {
        await next.close()
      }
    } finally {
      owner.kill('SIGKILL')
    }
  })

  test(`${kind}: killing a sandbox ends what its program left running, before the container is removed`, async () => {
    const runtime = create({ socket: dockerSocket(), root })
    try {
      const sandbox = await runtime.open({ limits, network: 'none' }, signal)
      const { Pid } = await stateOf(sandbox.id)
      await sandbox.run({ program: { kind: 'script', script: 'sleep 600 & echo done' } }, signal)
      assert.equal(await sandbox.kill?.(), true)
      assert.equal(isAlive(Pid), false)
      await sandbox.dispose()
      assert.deepEqual(await containersLeft(dockerSocket(), [sandbox.id]), [])
    } finally {
      await runtime.close()
    }
  })
}

test('a runtime without the option pause pauses no container', async () => {
  const runtime = createDockerRuntime({ socket: dockerSocket(), root })
  const sandbox = await runtime.open(python, signal)
  assert.equal(sandbox.pausing, undefined)
  await sandbox.dispose()
  await runtime.close()
})

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
}
