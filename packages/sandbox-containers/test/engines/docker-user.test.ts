import assert from 'node:assert/strict'
import { type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { unreachable } from '@gantry/sandbox/internal/process/file-access'
import { createDockerRuntime, createGvisorRuntime } from '@gantry/sandbox-containers'
import { dockerSocket } from './engines.fixture.ts'
import { limits } from './limits.fixture.ts'

const { signal } = new AbortController()
const folder = mkdtempSync(join(tmpdir(), 'gantry-user-'))
chmodSync(folder, 0o755)
after(() => rmSync(folder, { recursive: true, force: true }))

/** The engine of the run at another address, as long as the work takes. */
async function forwarded<T>(at: string | number, work: (port: number) => Promise<T>): Promise<T> {
  const server = createServer({ allowHalfOpen: true }, (from) => {
    const to = connect({ path: dockerSocket(), allowHalfOpen: true })
    from.pipe(to).pipe(from)
    from.on('error', () => to.destroy())
    to.on('error', () => from.destroy())
  })
  await once(typeof at === 'string' ? server.listen(at) : server.listen(at, '127.0.0.1'), 'listening')
  const address = server.address()
  try {
    return await work(typeof address === 'object' && address !== null ? address.port : 0)
  } finally {
    server.close()
  }
}

const fixture = join(import.meta.dirname, 'docker-user.fixture.ts')

async function printed(command: readonly [string, ...string[]], options: SpawnOptions = {}): Promise<unknown> {
  const [program, ...args] = command
  const env = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', TMPDIR: '/tmp' }
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'inherit'], env })
  assert.ok(child.stdout)
  return JSON.parse(await text(child.stdout))
}

/** Whether another user can start this Node and read these files. */
async function isReadable(): Promise<boolean> {
  const closed = await Promise.all([process.execPath, fixture].map((file) => unreachable(file, 'read')))
  return closed.every((one) => one === undefined)
}

test('a user who may use the socket and is not root runs programs, also in gVisor, and is refused a network with the reason', async (t) => {
  if (!(await isReadable())) return t.skip('other users cannot read the repository')
  const socket = join(folder, 'docker.sock')
  await forwarded(socket, async () => {
    chmodSync(socket, 0o666)
    const remedy = 'Leave `network` out, or run Gantry as root.'
    assert.deepEqual(await printed([process.execPath, fixture, socket], { uid: 61_234, gid: 61_234 }), [
      { kind: 'docker', printed: 'hello\n', refused: remedy },
      { kind: 'gvisor', printed: 'hello\n', refused: remedy },
    ])
  })
})

test('where the processes of containers cannot be seen, as in a container, a start is refused with the remedy', async () => {
  const command = ['unshare', '--pid', '--fork', '--mount-proc', process.execPath, fixture, dockerSocket()] as const
  const found = (await printed(command)) as readonly { readonly code?: string; readonly message?: string }[]
  assert.equal(found.length, 2)
  for (const { code, message } of found) {
    assert.equal(code, 'RUNTIME_UNAVAILABLE')
    assert.match(
      message ?? '',
      /its process is not among those of this machine\. Run Gantry on the machine of the engine/,
    )
  }
})

test('over TCP gvisor runs programs when its kernel is seen to be another one, and no network', async () => {
  await forwarded(0, async (port) => {
    const runtime = createGvisorRuntime({ host: { name: '127.0.0.1', port } })
    try {
      const sandbox = await runtime.open({ limits, network: 'none' }, signal)
      const { stdout } = await sandbox.run({ program: { kind: 'script', script: 'cat /proc/version' } }, signal)
      assert.match(Buffer.from(stdout.bytes).toString(), /^Linux version 4\.4\.0 /)
      await sandbox.dispose()
    } finally {
      await runtime.close()
    }
  })
})

test('over TCP a runtime that claims to be gVisor and runs on the kernel of the machine is refused', async () => {
  await forwarded(0, async (port) => {
    const host = { name: '127.0.0.1', port }
    const runtime = createGvisorRuntime({ host, runtime: 'runsc-claimed' })
    const plain = createDockerRuntime({ host, runtime: 'runsc-claimed' })
    try {
      await assert.rejects(runtime.open({ limits, network: 'none' }, signal), {
        code: 'RUNTIME_UNAVAILABLE',
        message: /runs programs on the kernel of the engine's machine, which gvisor must not/,
      })
      // The control: for the kind that promises no kernel of its own it is usable.
      await (await plain.open({ limits, network: 'none' }, signal)).dispose()
    } finally {
      await Promise.all([runtime.close(), plain.close()])
    }
  })
})
