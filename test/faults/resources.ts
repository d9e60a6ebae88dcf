import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { type Fault, type Size, seed } from './fault.ts'
import { drive, mixed, persist, pooled } from './load.ts'
import { residentBytes, type ServiceNode, until } from './processes.ts'
import { openSite, type Site } from './site.ts'

/** Mounts a small tmpfs; undefined without the right to mount. */
function smallDisk(t: TestContext, megabytes: number): string | undefined {
  const place = mkdtempSync(join(tmpdir(), 'gantry-disk-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=700`, 'tmpfs', place]).status === 0
  t.after(() => {
    if (mounted) spawnSync('umount', ['-l', place])
    rmSync(place, { recursive: true, force: true })
  })
  return mounted ? place : undefined
}

/** Fills a disk to its last byte; the returned function frees it. */
function fill(place: string): () => void {
  const file = join(place, 'filler')
  for (let size = 1_048_576; size >= 1; size /= 16) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size), { flag: 'a' })
    } catch {
      // The remaining space is smaller than this size.
    }
  }
  return () => rmSync(file)
}

/** Sends calls while the disk is full, and waits for their outcomes after it is freed. */
async function withFullDisk(site: Site, disk: string, size: Size): Promise<string> {
  const free = fill(disk)
  const calls = mixed(size === 'quick' ? 12 : 150, createRandom(seed), 20)
  const load = drive(site, calls, 6)
  const text = 'x'.repeat(5_000)
  const large = await site.client.call('fault:echo', { value: text }).catch((error) => error)
  await sleep(1_500)
  const [node] = site.nodes
  const ready = node === undefined ? undefined : await site.fetch(node, '/readyz').catch(() => undefined)
  free()
  await load
  const later = await persist(() => site.client.call('fault:echo', { value: text }))
  assert.equal(later.status, 'ok')
  return `readyz ${ready?.status} and a large call while it was full: ${large.status ?? 'refused'} ${large.error?.code ?? large.code ?? ''}`
}

const diskFull: Fault = {
  number: 20,
  name: 'no accepted call is lost while the disk of the embedded database, the artifacts and the spool is full',
  async run(t, size) {
    for (const engine of ['postgres', 'pglite'] as const) {
      const disk = smallDisk(t, engine === 'postgres' ? 2 : 160)
      if (disk === undefined) return t.skip('a tmpfs can be mounted by root only')
      const site = await openSite(t, { engine, data: join(disk, 'data'), service: { inlineBytes: 1_000 } })
      const node = await site.start()
      t.diagnostic(`${engine}: ${await withFullDisk(site, disk, size)}`)
      assert.ok(node.alive, node.said)
      await site.sound(`disk full, ${engine}`)
    }
  },
}

const noDescriptors: Fault = {
  number: 21,
  name: 'a service that runs out of file descriptors recovers by itself once some are free',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 3_000 } })
    const node = await site.start()
    for (let round = 0; round < (size === 'quick' ? 1 : 5); round++) {
      const open = readdirSync(`/proc/${node.pid}/fd`).length
      const limited = spawnSync('prlimit', ['--pid', String(node.pid), `--nofile=${open + 10}:`])
      if (limited.status !== 0) return t.skip('prlimit is not there')
      const load = drive(site, mixed(size === 'quick' ? 30 : 60, createRandom(seed), 50, `r${round}c`), 6)
      const hoard = await Promise.all(Array.from({ length: 60 }, () => openSocket(node)))
      const used = (): number => readdirSync(`/proc/${node.pid}/fd`).length
      assert.ok(await until(() => used() >= open + 9, 10_000), `only ${used() - open} descriptors more were used`)
      await sleep(1_500)
      for (const socket of hoard) socket.destroy()
      await load
      assert.ok(
        await until(async () => (await site.fetch(node, '/readyz').catch(() => undefined))?.ok === true),
        node.said,
      )
    }
    await site.sound('no descriptors')
  },
}

async function openSocket({ port }: ServiceNode) {
  const socket = connect(port, '127.0.0.1')
  await new Promise<void>((resolve) => {
    socket.once('connect', () => resolve())
    socket.once('error', () => resolve())
  })
  return socket.on('error', () => undefined)
}

const greedy = {
  language: 'python',
  code: 'x = []\nwhile True: x.append(bytearray(1_000_000))',
  limits: { memoryBytes: 67_108_864 },
}

const sandboxMemory: Fault = {
  number: 22,
  name: 'a program that exceeds its memory limit fails alone, and leaves no process behind',
  async run(t, size) {
    if (spawnSync('bwrap', ['--version']).status !== 0) return t.skip('bubblewrap is not installed')
    const site = await openSite(t, { engine: 'postgres', config: 'builtins: true' })
    const node = await site.start()
    const load = drive(site, mixed(30, createRandom(seed), 100), 6)
    const ends = await pooled(Array.from({ length: size === 'quick' ? 2 : 20 }), 2, () =>
      site.client.call('code:run', greedy),
    )
    assert.deepEqual(
      [...new Set(ends.map(({ status, error }) => `${status} ${error?.code}`))],
      ['failed LIMIT_EXCEEDED'],
    )
    await load
    assert.ok(node.alive)
    const { counts } = await site.sound('memory of a program')
    assert.equal(counts.attemptsLost, 0)
  },
}

/** Much less than the events would need if they were buffered for each reader. */
const heapMegabytes = 150
const chunks = 3_500

const slowReader: Fault = {
  number: 29,
  name: 'clients that do not read their event stream do not exhaust the heap, and get every event later',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres' })
    const node = await site.start({ flags: [`--max-old-space-size=${heapMegabytes}`] })
    const client = site.clientOf(node)
    const { callId } = await client.submit('fault:flood', { chunks })
    const count = size === 'quick' ? 20 : 100
    const readers = await pooled(Array.from({ length: count }), 20, () => lazyReader(site, node, callId))
    assert.ok(await until(async () => (await client.get(callId)).result !== undefined))
    await sleep(2_000)
    const resident = residentBytes(node.pid) / 1_048_576
    assert.ok(node.alive, node.said)
    const heard = await pooled(readers, 10, (read) => read())
    await pooled(heard, 10, async (ids) => {
      // A reader whose stream was closed resumes after its last event.
      const rest: number[] = []
      if (ids.length <= chunks) {
        for await (const { id } of client.events(callId, { after: ids.at(-1) ?? 0 })) rest.push(id)
      }
      const all = [...ids, ...rest]
      assert.equal(new Set(all).size, chunks + 1)
      assert.deepEqual(
        all,
        all.toSorted((one, other) => one - other),
      )
    })
    const cut = heard.filter(({ length }) => length <= chunks).length
    t.diagnostic(`${count} readers that did not read 3.5 MB each: ${resident.toFixed(0)} MiB in all, ${cut} cut off`)
    await site.sound('slow readers')
  },
}

/** Opens an event stream without reading; the returned function reads it and returns the event ids. */
async function lazyReader(site: Site, node: ServiceNode, callId: string): Promise<() => Promise<number[]>> {
  const headers = { authorization: `Bearer ${site.key}`, accept: 'text/event-stream' }
  const path = `/v1/calls/${callId}/events`
  const asked = request({ port: node.port, host: '127.0.0.1', path, headers, agent: false })
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    asked.once('response', resolve).once('error', reject).end()
  })
  return async () => {
    const pieces: Buffer[] = []
    try {
      for await (const piece of response) pieces.push(piece as Buffer)
    } catch {
      // The server closed the stream; the events before that count.
    }
    const whole = Buffer.concat(pieces).toString().split('\n\n').slice(0, -1)
    return whole.flatMap((event) => /^id: (\d+)/.exec(event)?.slice(1).map(Number) ?? [])
  }
}

export const resourceFaults: readonly Fault[] = [diskFull, noDescriptors, sandboxMemory, slowReader]
