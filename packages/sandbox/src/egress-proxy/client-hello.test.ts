import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fails } from '../../../core/src/egress/egress.fixture.ts'
import { helloGate } from './tunnel.ts'

const u16 = (value: number): number[] => [value >> 8, value & 255]
const sized = (bytes: readonly number[]): number[] => [...u16(bytes.length), ...bytes]
const named = (...names: readonly string[]): number[] => [
  ...u16(0),
  ...sized(sized(names.flatMap((name) => [0, ...sized([...Buffer.from(name)])]))),
]

/** A ClientHello with these extensions; without any when there is nothing given. */
function hello(...extensions: readonly (readonly number[])[]): Buffer {
  const body = [3, 3, ...Array<number>(32).fill(7), 0, ...sized([0x13, 0x01]), 1, 0]
  const whole = extensions.length === 0 ? body : [...body, ...sized(extensions.flat())]
  return Buffer.from([22, 3, 1, ...sized([1, 0, ...sized(whole)])])
}

async function pass(host: string, ...pieces: readonly Uint8Array[]): Promise<Buffer> {
  const gate = helloGate(host)
  return Buffer.concat(pieces.flatMap((piece) => gate(piece) ?? []))
}

const other = [...u16(0x2b), ...sized([2, 3, 4])]
const right = hello(other, named('a.example'), other)

test('a ClientHello for the host passes, whole or in pieces, and so do the bytes after it', async () => {
  const rest = Buffer.from('rest')
  assert.deepEqual(await pass('a.example', right, rest), Buffer.concat([right, rest]))
  assert.deepEqual(await pass('a.example', Buffer.concat([right, rest])), Buffer.concat([right, rest]))
  const bytes = [...right, ...rest].map((byte) => Uint8Array.of(byte))
  assert.deepEqual(await pass('a.example', ...bytes), Buffer.concat([right, rest]))
  assert.deepEqual(await pass('a.example', hello(named('A.Example.'))), hello(named('A.Example.')))
  for (const host of ['192.0.2.1', '[2001:db8::1]']) {
    assert.deepEqual(await pass(host, hello()), hello())
    assert.deepEqual(await pass(host, hello(other)), hello(other))
  }
})

test('a ClientHello for another name, for none or for several is refused', async () => {
  const wrong = [
    ...[hello(named('b.example')), hello(named('xa.example')), hello(named('a.example.b.example')), hello(other)],
    ...[hello(named('a.example', 'b.example')), hello(named('a.example'), named('b.example')), hello()],
    ...[hello(named('a.example'), named('a.example')), hello(named('')), hello(named('a.example\0'))],
  ]
  for (const bytes of wrong) await assert.rejects(pass('a.example', bytes), fails('EGRESS_DENIED'))
  await assert.rejects(pass('192.0.2.1', hello(named('b.example'))), fails('EGRESS_DENIED'))
})

test('an incomplete ClientHello is not forwarded', async () => {
  for (let length = 0; length < right.length; length += 1) {
    assert.equal((await pass('a.example', right.subarray(0, length))).length, 0)
  }
})

test('arbitrary bytes are buffered, refused, or a ClientHello for the host', async () => {
  const change = fc.tuple(fc.nat(right.length - 1), fc.nat(255))
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), async (changes) => {
      const bytes = Buffer.from(right)
      for (const [at, byte] of changes) bytes[at] = byte
      const passed = await pass('a.example', bytes).catch((error: unknown) => {
        fails('EGRESS_DENIED')(error)
        return Buffer.alloc(0)
      })
      if (passed.length > 0) assert.match(passed.toString('latin1'), /a\.example/i)
    }),
  )
  const noise = fc.uint8Array({ minLength: 5, maxLength: 100 })
  await fc.assert(
    fc.asyncProperty(noise, async (bytes) => {
      const head = Buffer.from([22, 3, 1, ...sized([...bytes])])
      await assert.rejects(pass('a.example', head), fails('EGRESS_DENIED'))
    }),
  )
})
