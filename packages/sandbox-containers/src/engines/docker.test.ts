import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDocker } from './docker.ts'
import { type FakeDockerOptions, ordinaryInfo, startFakeDocker } from './docker-server.fixture.ts'
import type { ContainerEngine, ContainerSpec } from './engine.ts'

const signal = AbortSignal.timeout(20_000)

const spec: ContainerSpec = {
  id: 'one',
  owner: 'owner',
  image: 'sha256:0',
  command: ['/gantry/init', 'init'],
  filter: 'base',
  uid: 61_000,
  memoryBytes: 2 ** 26,
  pids: 18,
  processors: 1,
  diskBytes: 2 ** 20,
  openFiles: 1_024,
  hasOwnKernel: false,
}

type Fake = Awaited<ReturnType<typeof startFakeDocker>>

/** Opens an engine that answers like this, and closes both. */
async function withDocker<T>(
  options: FakeDockerOptions,
  work: (engine: ContainerEngine, fake: Fake) => Promise<T>,
): Promise<T> {
  const fake = await startFakeDocker(options)
  try {
    const address = { kind: 'socket', path: fake.socket } as const
    const engine = await openDocker({ address, owner: 'owner' }, signal)
    try {
      return await work(engine, fake)
    } finally {
      await engine.close()
    }
  } finally {
    fake.stop()
  }
}

test('an engine is outdated when it loads its configuration again', async () => {
  await withDocker({}, async (engine, fake) => {
    fake.tell({ Type: 'daemon', Action: 'reload', Actor: { ID: 'x' } })
    await engine.outdated
  })
})

test('an engine is outdated when it ends the streams of its events, as on a restart', async () => {
  await withDocker({}, async (engine, fake) => {
    fake.hangUp()
    await engine.outdated
  })
})

test('an engine is outdated when the image of a container is gone, which is RUNTIME_UNAVAILABLE with the remedy', async () => {
  const body = { message: 'No such image: sha256:0' }
  await withDocker({ answers: { '/containers/create': { status: 404, body } } }, async (engine) => {
    await assert.rejects(engine.start(spec, signal), {
      code: 'RUNTIME_UNAVAILABLE',
      message: /has no image "sha256:0"\. Load it into the engine/,
    })
    await engine.outdated
  })
})

test('an engine that has no 1.41 any more is spoken to by the oldest version of its API', async () => {
  await withDocker({ versions: ['1.44', '1.52'] }, async (engine, fake) => {
    assert.match(engine.version, /^Docker 20\.10\.24, runc 1\.3\.6/)
    const versions = fake.paths.map((path) => /^\/v([\d.]+)\//.exec(path)?.[1] ?? 'none')
    assert.deepEqual(
      [versions.filter((one) => one === 'none').length, new Set(versions)],
      [1, new Set(['none', '1.44'])],
    )
  })
})

test('an engine that still has 1.41 is spoken to by it', async () => {
  await withDocker({ versions: ['1.24', '1.52'] }, async (_, fake) => {
    assert.ok(fake.paths.includes('/v1.41/info'), fake.paths.join(' '))
  })
})

test('an engine without 1.41 yet is refused with its version and the remedy', async () => {
  await assert.rejects(
    withDocker({ versions: ['1.12', '1.40'] }, async () => undefined),
    { code: 'RUNTIME_UNAVAILABLE', message: /has version 1\.40 of the Engine API.*Install Docker 20\.10/ },
  )
})

for (const [member, limit] of [
  ['MemoryLimit', 'memory'],
  ['PidsLimit', 'processes'],
  ['CpuCfsQuota', 'processors'],
] as const) {
  test(`an engine whose ${member} is false is refused, because it would drop the limit`, async () => {
    const body = { ...ordinaryInfo, [member]: false }
    await assert.rejects(
      withDocker({ answers: { '/info': { status: 200, body } } }, async () => undefined),
      {
        code: 'RUNTIME_UNAVAILABLE',
        message: new RegExp(`enforces no limit of ${limit}: .*Give the engine the control groups`),
      },
    )
  })
}

for (const warning of [
  'Your kernel does not support memory limit capabilities or the cgroup is not mounted. Limitation discarded.',
  'Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs limit discarded.',
]) {
  test(`a container is not started when the engine warns: ${warning}`, async () => {
    const body = { Id: 'c1', Warnings: [warning] }
    await withDocker(
      { answers: { '/containers/create': { status: 201, body }, '/containers/c1': { status: 200, body: {} } } },
      async (engine, fake) => {
        await assert.rejects(engine.start(spec, signal), { code: 'RUNTIME_UNAVAILABLE', message: /enforces no limit/ })
        assert.deepEqual(
          fake.paths.filter((path) => path.includes('c1')),
          ['/v1.41/containers/c1?force=1&v=1'],
        )
      },
    )
  })
}
