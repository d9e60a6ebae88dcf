import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { test } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import { frameHead, frameReader, PayloadReader, PayloadWriter } from '@gantry/sandbox/internal/launcher/protocol'
import { connectGuest } from './guest-link.ts'

const limits: SandboxLimits = {
  wallMs: 1_000,
  cpuMs: 1_000,
  memoryBytes: 5_000_000_000,
  pids: 7,
  diskBytes: 3,
  stdoutBytes: 1,
  stderrBytes: 1,
}
const kernel = new PayloadWriter().text('6.1.0')
const renewed = (): Buffer => Buffer.from(kernel.frame(201))
const figures = (oom: number, pids: number): Buffer =>
  new PayloadWriter().u64(1).u64(4_096).u64(oom).u64(pids).frame(204)

/** The frames that reach the guest. */
function framesTo(guest: Duplex): readonly { readonly type: number; readonly payload: Buffer }[] {
  const found: { readonly type: number; readonly payload: Buffer }[] = []
  guest.on(
    'data',
    frameReader((type, payload) => found.push({ type, payload: Buffer.from(payload) })),
  )
  return found
}

test('a guest gets a seed of its own, the time and its limits, and is renewed when it says so', async () => {
  const seeds: string[] = []
  for (let n = 0; n < 2; n += 1) {
    const [host, guest] = duplexPair()
    const frames = framesTo(guest)
    const link = connectGuest(host)
    const done = link.renew(limits)
    guest.write(renewed())
    await done
    const [frame] = frames
    assert.equal(frame?.type, 200)
    const reader = new PayloadReader(frame.payload)
    const seed = Buffer.from(Array.from({ length: reader.u32() }, () => reader.u8()))
    assert.equal(seed.length, 64)
    seeds.push(seed.toString('hex'))
    const seconds = reader.u64()
    assert.ok(Math.abs(seconds - Date.now() / 1_000) < 60)
    assert.ok(reader.u64() < 1e9)
    assert.deepEqual([reader.u64(), reader.u64(), reader.u64()], [5_000_000_000, 7, 3])
  }
  assert.notEqual(seeds[0], seeds[1])
})

test('frames of the init pass both ways unchanged, in pieces of any size, and those of the guest do not', async () => {
  const [host, guest] = duplexPair()
  const frames = framesTo(guest)
  const link = connectGuest(host)
  const output = Buffer.concat([frameHead(2, 3), Buffer.from('abc')])
  for (const byte of Buffer.concat([figures(0, 0), output])) guest.write(Buffer.of(byte))
  const [piece] = await once(link.channel, 'data')
  assert.deepEqual(piece, output)
  assert.deepEqual(link.figures(), { memoryPeakBytes: 4_096, hits: [] })
  const job = Buffer.concat([frameHead(4, 2), Buffer.from('go')])
  await new Promise((resolve) => link.channel.write(job, resolve))
  assert.deepEqual(
    frames.map(({ type, payload }) => [type, payload.toString()]),
    [[4, 'go']],
  )
})

test('a restored guest is ready at once, and the frame that its snapshot has had is sent to no clone again', async () => {
  const [host, guest] = duplexPair()
  const frames = framesTo(guest)
  const link = connectGuest(host)
  const ahead = Buffer.concat([frameHead(1, 1), Buffer.from('p')])
  link.resume(ahead)
  const [ready] = await once(link.channel, 'data')
  assert.deepEqual(ready, Buffer.concat([frameHead(1, 1), Buffer.from('1')]))
  for (const sent of [ahead, ahead, frameHead(4, 0)]) {
    await new Promise((resolve) => link.channel.write(sent, resolve))
  }
  assert.deepEqual(
    frames.map(({ type }) => type),
    [1, 4],
  )
})

test('limits that the guest reports as hit reach the listeners, and so does its reason when it gives up', async () => {
  const [host, guest] = duplexPair()
  const link = connectGuest(host)
  const hit = new Promise((resolve) => link.onHit(resolve))
  guest.write(figures(1, 2))
  assert.deepEqual(await hit, { memoryPeakBytes: 4_096, hits: ['memoryBytes', 'pids'] })
  guest.end(new PayloadWriter().text('/dev/vda: No such file').frame(205))
  await link.closed
  assert.equal(link.fault(), '/dev/vda: No such file')
})

test('a hostile guest ends its own link: an unknown frame, an answer without a question, a frame without end', async () => {
  const cases = [
    frameHead(77, 0),
    renewed(),
    Buffer.of(2, 0xff, 0xff, 0xff, 0xff),
    frameHead(204, 0),
    Buffer.concat([frameHead(205, 4), Buffer.from([0, 0, 0, 9])]),
  ]
  for (const bytes of cases) {
    const [host, guest] = duplexPair()
    guest.on('error', () => undefined)
    const link = connectGuest(host)
    guest.write(bytes)
    await link.closed
    assert.ok(link.isClosed() && link.channel.destroyed, bytes.toString('hex'))
  }
})

test('a guest that is gone settles what was asked of it', async () => {
  const [host, guest] = duplexPair()
  const link = connectGuest(host)
  const asked = link.renew(limits)
  guest.destroy()
  host.destroy()
  await asked
  await link.quiet()
  assert.ok(link.isClosed())
})
