import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { LaunchEnd, Launched } from '../launcher/launcher.ts'
import { launcherRuntime, type PreparedHost } from './launcher-runtime.ts'

const { signal } = new AbortController()
const limits = {
  wallMs: 1_000,
  cpuMs: 1_000,
  memoryBytes: 2 ** 26,
  pids: 8,
  diskBytes: 2 ** 20,
  stdoutBytes: 1_024,
  stderrBytes: 1_024,
}
const spec = { limits, network: 'none' } as const

/** A host whose sandboxes run nothing; the test says when it is outdated and why a start fails. */
function host(name: string, noted: string[], failure?: () => ToolError | undefined) {
  const outdated = Promise.withResolvers<void>()
  const launch = async (): Promise<Launched> => {
    const failed = failure?.()
    if (failed !== undefined) throw failed
    noted.push(`${name} started`)
    const ended = Promise.withResolvers<LaunchEnd>()
    const end: LaunchEnd = { reason: 'killed', figures: {}, hits: [], left: [] }
    return {
      pid: 0,
      ended: ended.promise,
      async dispose() {
        ended.resolve(end)
        return end
      },
    } as Partial<Launched> as Launched
  }
  const prepared: PreparedHost = {
    version: name,
    image: `sha256:${name}`,
    enforced: {},
    outdated: outdated.promise,
    refuses: () => undefined,
    plan: () => ({
      enforced: {},
      counted: true,
      inside: { env: {}, languages: new Map() } as unknown as ReturnType<PreparedHost['plan']>['inside'],
      launch,
      release: () => undefined,
    }),
    async close() {
      noted.push(`${name} closed`)
    },
  }
  const outdate = async (): Promise<void> => {
    outdated.resolve()
    await outdated.promise
  }
  return { prepared, outdate }
}

function runtimeOf(hosts: readonly ReturnType<typeof host>[]) {
  const left = [...hosts]
  return launcherRuntime({
    kind: 'test',
    isolation: 'container',
    cost: 1,
    guarded: true,
    found: { available: [], waiting: [], asking: [], missing: new Map() },
    async prepare() {
      const next = left.shift()
      if (next === undefined) throw new ToolError('RUNTIME_UNAVAILABLE', 'There is no other host.')
      return next.prepared
    },
  })
}

test('a host is prepared once, and anew when it is outdated; the old one is closed when its sandboxes have ended', async () => {
  const noted: string[] = []
  const [first, second] = [host('first', noted), host('second', noted)]
  const runtime = runtimeOf([first, second])
  const one = await runtime.open(spec, signal)
  const two = await runtime.open(spec, signal)
  await first.outdate()
  const three = await runtime.open(spec, signal)
  assert.deepEqual(noted, ['first started', 'first started', 'second started'])
  // The result of a sandbox that was started before names the image that it was made from.
  assert.deepEqual([one.image, three.image, runtime.image?.()], ['sha256:first', 'sha256:second', 'sha256:second'])
  await Promise.all([one.dispose(), two.dispose()])
  await three.dispose()
  await runtime.close()
  assert.deepEqual(noted.slice(3).toSorted(), ['first closed', 'second closed'])
  assert.deepEqual(noted.slice(3)[0], 'first closed')
})

test('a start for which the host proves outdated is tried once more on one that is prepared anew', async () => {
  const noted: string[] = []
  const first = host('first', noted, () => {
    void first.outdate()
    return new ToolError('RUNTIME_UNAVAILABLE', 'The image is gone.')
  })
  const runtime = runtimeOf([first, host('second', noted)])
  await (await runtime.open(spec, signal)).dispose()
  await runtime.close()
  assert.deepEqual(noted, ['second started', 'first closed', 'second closed'])
})

test('a start that fails on a host which is not outdated is not tried again', async () => {
  const noted: string[] = []
  const first = host('first', noted, () => new ToolError('RUNTIME_UNAVAILABLE', 'The engine hangs.'))
  const runtime = runtimeOf([first, host('second', noted)])
  await assert.rejects(runtime.open(spec, signal), { message: 'The engine hangs.' })
  await runtime.close()
  assert.deepEqual(noted, ['first closed'])
})

test('an outdated host that no other replaces is closed with the runtime', async () => {
  const noted: string[] = []
  const first = host('first', noted)
  const runtime = runtimeOf([first])
  await (await runtime.open(spec, signal)).dispose()
  await first.outdate()
  await assert.rejects(runtime.open(spec, signal), { message: 'There is no other host.' })
  await runtime.close()
  assert.deepEqual(noted, ['first started', 'first closed'])
})
