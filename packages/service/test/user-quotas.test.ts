import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { engineFolder } from '../../../scripts/engines/folder.ts'
import { startServe } from './serve.fixture.ts'
import { bin, node } from './spawn.fixture.ts'

const isRoot = process.getuid?.() === 0
const skip = existsSync('/usr/bin/bwrap') ? (isRoot ? false : 'only root can start it both ways') : 'needs bubblewrap'
/** A user without a name, without control groups and without any other process. */
const ordinary = 0x6fff_ffe0

// Making a database takes the longest, so that of the first way is used again.
const kept = skip === false ? mkdtempSync(join(tmpdir(), 'gantry-quotas-')) : ''
after(() => (kept === '' ? undefined : rmSync(kept, { recursive: true, force: true })))

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
  test(`a service that runs as ${way} outlives a program that uses up what the kernel counts by user`, {
    skip,
  }, async (t) => {
    if (uid !== undefined && spawnSync(node, [bin, '--version'], { uid, gid: uid, cwd: '/' }).status !== 0) {
      return t.skip('this checkout is closed to other users')
    }
    const folder = engineFolder('quotas')
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    mkdirSync(join(folder, '.git'))
    const database = join(folder, '.gantry', 'db')
    if (existsSync(join(kept, 'db'))) cpSync(join(kept, 'db'), database, { recursive: true })
    if (uid !== undefined) spawnSync('chown', ['-R', `${uid}:${uid}`, folder])
    const environment = { HOME: folder, SANDBOX_ROOT: join(folder, 'sandboxes'), NODE_COMPILE_CACHE: undefined }
    const service = startServe(t, folder, { environment, ...(uid === undefined ? {} : { uid }) })
    await service.ready
    const limits = { pids: 64, memoryBytes: 268_435_456, wallMs: 60_000 }
    const args = { language: 'python', code: attack, runtime: 'process', limits }
    const { value } = await service.post('/v1/calls', { tool: 'code:run', args, waitMs: 0 })
    // The attack has done what it can once every child has written its line, or a limit has ended it.
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
    if (uid === undefined) cpSync(database, join(kept, 'db'), { recursive: true })
  })
}
