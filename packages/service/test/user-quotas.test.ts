import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { migratedFolder, startServe } from './serve.fixture.ts'
import { bin, node } from './spawn.fixture.ts'

const isRoot = process.getuid?.() === 0
const skip = existsSync('/usr/bin/bwrap') ? (isRoot ? false : 'only root can start it both ways') : 'needs bubblewrap'
/** A uid without a name, control groups or other processes. */
const ordinary = 0x6fff_ffe0

/** Registers 500 descriptors in each of 500 epolls, in each of 24 processes: 6 million, where the kernel allows fewer. */
const attack = `
import os, select, time
children = []
for child in range(24):
    pid = os.fork()
    if pid == 0:
        try:
            events = [os.eventfd(0) for _ in range(500)]
            epolls = [select.epoll() for _ in range(500)]
            for epoll in epolls:
                for event in events: epoll.register(event, select.EPOLLIN)
        except OSError: pass
        print('full', flush=True)
        time.sleep(30)
        os._exit(0)
    children.append(pid)
for pid in children: os.waitpid(pid, 0)`

for (const [way, uid] of [
  ['root', undefined],
  ['an ordinary user without control groups', ordinary],
] as const) {
  test(`a service that runs as ${way} survives a program that exhausts the kernel’s quotas of its user`, {
    skip,
  }, async (t) => {
    if (uid !== undefined && spawnSync(node, [bin, '--version'], { uid, gid: uid, cwd: '/' }).status !== 0) {
      return t.skip('this checkout is closed to other users')
    }
    const folder = await migratedFolder(t)
    if (uid !== undefined) spawnSync('chown', ['-R', `${uid}:${uid}`, folder])
    // Another user can read no compile cache of ours.
    const cache = uid === undefined ? {} : { NODE_COMPILE_CACHE: undefined }
    const environment = { HOME: folder, SANDBOX_ROOT: join(folder, 'sandboxes'), ...cache }
    const service = startServe(t, folder, { environment, ...(uid === undefined ? {} : { uid }) })
    await service.ready
    const limits = { pids: 64, memoryBytes: 268_435_456, wallMs: 60_000 }
    const args = { language: 'python', code: attack, runtime: 'process', limits }
    const { value } = await service.post('/v1/calls', { tool: 'code:run', args, waitMs: 0 })
    // The attack is complete once every child has written its line, or a limit has ended it.
    const events = await service.ask(`/v1/calls/${value.callId}/events`)
    let seen = ''
    for await (const chunk of events.body ?? []) {
      seen += Buffer.from(chunk).toString()
      if (seen.split('full').length > 24) break
    }
    // Each of these registers a connection, or a sandbox, with the service's own epoll.
    for (let request = 0; request < 20; request += 1) assert.equal((await service.get('/healthz')).status, 200)
    const after = await service.post('/v1/calls', {
      tool: 'code:run',
      args: { language: 'python', code: 'return 6 * 7', runtime: 'process' },
    })
    assert.deepEqual([after.value.status, after.value.output?.value], ['ok', 42], JSON.stringify(after.value))
    await service.ask(`/v1/calls/${value.callId}/cancel`, { method: 'POST' })
    assert.equal(await service.stop(), 0)
  })
}
