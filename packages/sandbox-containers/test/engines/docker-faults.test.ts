import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type ErrorCode, ToolError } from '@gantry/contract'
import type { Runtime, SandboxJob } from '@gantry/sandbox'
import { createDockerRuntime, type DockerOptions } from '@gantry/sandbox-containers'
import { api, containersLeft, importForeign } from './docker-api.fixture.ts'
import { dockerSocket } from './engines.fixture.ts'
import { limits } from './limits.fixture.ts'

const { signal } = new AbortController()
const image = 'gantry/sandbox:standard'
const root = mkdtempSync(join(tmpdir(), 'gantry-faults-'))
after(() => rmSync(root, { recursive: true, force: true }))

async function withRuntime<T>(options: DockerOptions, work: (runtime: Runtime) => Promise<T>): Promise<T> {
  const runtime = createDockerRuntime({ root, ...options })
  try {
    return await work(runtime)
  } finally {
    await runtime.close()
  }
}

/** Why a runtime cannot be used, by its probe and by opening a sandbox, which must agree. */
async function refusalOf(options: DockerOptions): Promise<{ readonly reason: string; readonly remedy: string }> {
  return withRuntime(options, async (runtime) => {
    const probe = await runtime.probe(signal)
    if (probe.available) assert.fail('It is available.')
    await assert.rejects(runtime.open({ limits, network: 'none' }, signal), (error) => {
      assert.ok(hasCode(error, 'RUNTIME_UNAVAILABLE'), String(error))
      assert.equal(error.message, `${probe.reason} ${probe.remedy}`)
      return true
    })
    return { reason: probe.reason, remedy: probe.remedy }
  })
}

function hasCode(error: unknown, code: ErrorCode): error is ToolError {
  return ToolError.is(error) && error.code === code
}

function script(text: string): SandboxJob {
  return { program: { kind: 'script', script: text } }
}

test('a socket that is not there, and one without an engine behind it, are named with a remedy', async () => {
  const absent = await refusalOf({ socket: '/nowhere/docker.sock' })
  assert.equal(absent.reason, 'Docker at unix:///nowhere/docker.sock is unreachable (ENOENT).')
  assert.match(absent.remedy, /Start the engine, or name its socket in `runtimes\.docker\.socket`/)
  const path = join(root, 'other.sock')
  const server = createServer((socket) => socket.destroy()).listen(path)
  await once(server, 'listening')
  try {
    assert.match((await refusalOf({ socket: path })).reason, /other\.sock is unreachable/)
  } finally {
    server.close()
  }
})

test('an image that the engine does not have is refused, with the command that builds it or where to name another', async () => {
  const other = /^Load it into the engine, or name another one in `runtimes\.docker\.image`/
  for (const [name, expected] of [
    ['gantry/sandbox:standard-000000000000', /^Run `gantry runtime build`\.$/],
    ['gantry/sandbox:missing', other],
    ['../../containers/x?y=1', other],
    [`sha256:${'0'.repeat(64)}`, other],
  ] as const) {
    const { reason, remedy } = await refusalOf({ socket: dockerSocket(), image: name })
    assert.ok(reason.endsWith(`has no image "${name}".`), reason)
    assert.match(remedy, expected)
  }
})

test('an image that gantry runtime build did not make is refused before a container is started from it', async () => {
  await importForeign(dockerSocket(), 'gantry-test/foreign')
  try {
    const { reason, remedy } = await refusalOf({ socket: dockerSocket(), image: 'gantry-test/foreign' })
    assert.match(reason, /was not made by `gantry runtime build`: it has no init for sandboxes\.$/)
    assert.match(remedy, /make your image FROM gantry\/sandbox:standard/)
  } finally {
    await api(dockerSocket(), 'DELETE', '/images/gantry-test%2Fforeign')
  }
})

test('an image without Python is refused for Python with the reason, and runs what it has', async () => {
  const socket = dockerSocket()
  const { Id } = (await api(socket, 'POST', '/containers/create', { Image: image, Cmd: ['/bin/true'] })) as {
    Id: string
  }
  const changes = encodeURIComponent('LABEL dev.gantry.programs="/usr/bin/bash" dev.gantry.node="false"')
  await api(socket, 'POST', `/commit?container=${Id}&repo=gantry-test/bash&changes=${changes}`, {})
  await api(socket, 'DELETE', `/containers/${Id}`)
  try {
    await withRuntime({ socket, image: 'gantry-test/bash' }, async (runtime) => {
      const probe = await runtime.probe(signal)
      assert.ok(probe.available && probe.languages.includes('bash'), JSON.stringify(probe))
      assert.deepEqual(
        ['python', 'javascript'].filter((name) => probe.languages.includes(name)),
        [],
      )
      const refused = runtime.refuses({ language: 'python', limits, network: 'none' })
      assert.match(refused?.reason ?? '', /python/i)
      assert.ok(refused !== undefined && refused.remedy.length > 0)
      assert.equal(runtime.refuses({ language: 'bash', limits, network: 'none' }), undefined)
    })
  } finally {
    await api(socket, 'DELETE', '/images/gantry-test%2Fbash')
  }
})

test('fifty runs leave no container', async () => {
  const ids: string[] = []
  await withRuntime({ socket: dockerSocket() }, async (runtime) => {
    const one = async (): Promise<void> => {
      const sandbox = await runtime.open({ limits, network: 'none' }, signal)
      ids.push(sandbox.id)
      const { exit } = await sandbox.run(script('exit 3'), signal)
      assert.deepEqual(exit, { code: 3 })
      await sandbox.dispose()
    }
    for (let round = 0; round < 10; round += 1) await Promise.all(Array.from({ length: 5 }, one))
  })
  assert.equal(new Set(ids).size, 50)
  // What was disposed is gone at once: nothing is waited for.
  assert.deepEqual(await containersLeft(dockerSocket(), ids, 0), [])
})
